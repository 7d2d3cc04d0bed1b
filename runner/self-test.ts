import type { Command } from '../core/build-plan.ts'
import type { Config } from '../infra/config.ts'
import { inside } from './bubblewrap.ts'
import type { RunConfined } from './sandbox.ts'
import { createSlots } from './slots.ts'
import { openWorkspace } from './workspace.ts'

const MiB = 1024 * 1024
const limits = { memoryBytes: 192 * MiB, pids: 64 }

interface Probing {
  readonly bwrap: string
  readonly config: Pick<Config, 'build' | 'dataDir'>
  readonly isRoot: boolean
  /** Whether cgroups enforce limits, so that reaching them can be tried. */
  readonly limited: boolean
  readonly confined: RunConfined
}

interface View {
  readonly uid: number
  readonly groups: string
  readonly capabilities: string
  readonly noNewPrivileges: boolean
  readonly filtered: boolean
  readonly interfaces: readonly string[]
  readonly environment: readonly string[]
  readonly processes: number
  readonly visible: readonly string[]
  readonly writable: readonly string[]
  readonly nestedNamespace: boolean
}

/** Runs hostile probes in a sandbox, as a build would run. Returns what was possible and should not be; nothing when it holds. */
export async function testIsolation({ bwrap, config, isRoot, limited, confined }: Probing): Promise<string[]> {
  const { build, dataDir } = config
  await using slot = await createSlots(1, build.dir, isRoot).acquire()
  await using workspace = await openWorkspace(build.dir, slot)
  const view = {
    // of the host, or of other builds; /tmp, /proc and /dev exist inside with other content
    hidden: [dataDir, build.dir, workspace.root, '/root', '/var', '/sys', '/etc/shadow'],
    readOnly: ['/', '/dev', '/usr', '/etc', '/etc/passwd', inside.toolchain, inside.support, '/proc/sys/kernel'],
  }
  const output: Buffer[] = []
  let outOfMemory = false
  const ended = await confined(
    bwrap,
    {
      workspace,
      slot,
      signal: AbortSignal.timeout(60_000),
      onNotice: () => undefined,
      commands: [
        probe('view', view),
        ...(limited ? [probe('processes', { count: limits.pids }), probe('memory', { bytes: 2 * limits.memoryBytes })] : []),
      ],
    },
    {
      limits,
      onOutput: (chunk) => output.push(chunk),
      onOutOfMemory: () => {
        outOfMemory = true
      },
    },
  )
  const text = Buffer.concat(output).toString('utf8')
  const answers = [...text.matchAll(/^PROBE (.*)$/gm)].map(([, json = '']) => JSON.parse(json) as unknown)
  const seen = answers[0] as View | undefined
  if (!ended.started || !seen) return [`the sandbox does not start: ${whyNot(text)}`]
  const problems = leaksOf(seen)
  if (isRoot && seen.groups !== '') problems.push(`a build keeps the groups ${seen.groups}`)
  if (limited && (answers[1] as { started: number } | undefined)?.started === limits.pids)
    problems.push('the limit of processes is not enforced')
  if (limited && (answers[2] !== undefined || !outOfMemory)) problems.push('the limit of memory is not enforced')
  return problems
}

const probe = (name: string, request: object): Command => ['node', `${inside.support}/probe.mjs`, name, JSON.stringify(request)]

function leaksOf(view: View): string[] {
  const shellSets = new Set(['PWD', 'OLDPWD', 'SHLVL', '_'])
  const leaked = view.environment.filter((name) => !shellSets.has(name))
  const rules: readonly [boolean, string][] = [
    [view.uid === 1000, `a build runs as user ${view.uid}`],
    [/^0*$/.test(view.capabilities) && view.noNewPrivileges, 'a build can gain privileges'],
    [view.filtered, 'a build may make every system call'],
    [view.interfaces.every((name) => name === 'lo'), `a build reaches the network by ${view.interfaces.join(', ')}`],
    [leaked.length === 0, `a build sees ${leaked.join(', ')} of the runner's environment`],
    [view.processes < 10, `a build sees ${view.processes} processes`],
    [view.visible.length === 0, `a build sees ${view.visible.join(', ')}`],
    [view.writable.length === 0, `a build can write to ${view.writable.join(', ')}`],
    [!view.nestedNamespace, 'a build can make user namespaces'],
  ]
  return rules.filter(([holds]) => !holds).map(([, problem]) => problem)
}

/** The last line that bubblewrap or the shell has said, with what it means where that is known. */
function whyNot(output: string): string {
  const said = output.trim().split('\n').at(-1) ?? ''
  if (/No permissions to create new namespace|Creating new namespace failed|setting up uid map/i.test(said)) {
    return `${said} (user namespaces are switched off for this user; on Ubuntu see kernel.apparmor_restrict_unprivileged_userns)`
  }
  return said === '' ? 'it ended without a word' : said
}
