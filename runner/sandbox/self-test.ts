import type { Command } from '../../core/build-plan.ts'
import type { Config } from '../../infra/config.ts'
import { inside } from './bubblewrap.ts'
import type { RunInCgroup } from './run-in-cgroup.ts'
import { createSlots, type Slot } from './slots.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const MiB = 1024 * 1024
const pids = 64
/** Two processes of Node have room in it with all of their program, even when that has to be read from the disk. */
const viewBytes = 512 * MiB
const memoryBytes = 128 * MiB
/** Reading Node from a slow disk takes most of it. */
const viewTimeoutMs = 60_000
/** An idle machine needs 0.3 s. */
const memoryTimeoutMs = 10_000

interface Probing {
  readonly bwrap: string
  readonly config: Pick<Config, 'build' | 'dataDir'>
  readonly isRoot: boolean
  /** Whether cgroups enforce limits, so that reaching them can be tried. */
  readonly limited: boolean
  readonly runInCgroup: RunInCgroup
  /** Ends the test without a result. */
  readonly signal: AbortSignal
}

/** The failures of the isolation; empty when it holds. Inconclusive means that a probe did not end in time. */
export interface Tested {
  readonly problems: string[]
  readonly isConclusive: boolean
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

/** Runs hostile probes in a sandbox, as a build would run. */
export async function testIsolation(probing: Probing): Promise<Tested> {
  const { config, isRoot, limited } = probing
  await using slot = await createSlots(1, config.build.dir, isRoot).acquire()
  await using workspace = await openWorkspace(config.build.dir, slot)
  const problems = await testView(probing, workspace, slot)
  if (problems?.length === 0 && limited) {
    const isEnforced = await testMemory(probing, workspace, slot)
    if (isEnforced === undefined) return inconclusive
    if (!isEnforced) problems.push('the limit of memory is not enforced')
  }
  return problems ? { problems, isConclusive: true } : inconclusive
}

const inconclusive: Tested = {
  problems: ['the isolation could not be tested, because the machine is too busy; the test is repeated, and builds wait for it'],
  isConclusive: false,
}

/** Undefined when it did not end in time. */
async function testView(probing: Probing, workspace: Workspace, slot: Slot): Promise<string[] | undefined> {
  const { bwrap, config, isRoot, limited, runInCgroup, signal } = probing
  const { build, dataDir } = config
  const view = {
    // of the host, or of other builds; /tmp, /proc and /dev exist inside with other content
    hidden: [dataDir, build.dir, workspace.root, '/root', '/var', '/sys', '/etc/shadow'],
    readOnly: ['/', '/dev', '/usr', '/etc', '/etc/passwd', inside.toolchain, inside.support, '/proc/sys/kernel'],
  }
  const probes = { view, ...(limited && { processes: { count: pids } }) }
  const command: Command = ['node', `${inside.support}/probe.mjs`, JSON.stringify(probes)]
  const output: Buffer[] = []
  const ending = AbortSignal.any([signal, AbortSignal.timeout(viewTimeoutMs)])
  const ended = await runInCgroup(
    bwrap,
    { workspace, slot, signal: ending, onNotice: () => undefined, commands: [command] },
    { limits: { memoryBytes: viewBytes, pids }, onOutput: (chunk) => output.push(chunk), onOutOfMemory: () => undefined },
  )
  if (ending.aborted) return undefined
  const text = Buffer.concat(output).toString('utf8')
  const [seen, grown] = [...text.matchAll(/^PROBE (.*)$/gm)].map(([, json = '']) => JSON.parse(json) as unknown)
  if (!ended.started || !seen) return [`the sandbox does not start: ${whyNot(text)}`]
  const problems = leaksOf(seen as View)
  if (isRoot && (seen as View).groups !== '') problems.push(`a build keeps the groups ${(seen as View).groups}`)
  if (limited && (grown as { started: number } | undefined)?.started === pids)
    problems.push('the limit of processes is not enforced')
  return problems
}

/**
 * Judges what the kernel has enforced, not how soon: with an empty page cache a process may stand at its limit for a minute before it is
 * ended. `tail` is so small that its own program cannot be what the kernel takes back. Undefined when nothing has reached the limit in time.
 */
async function testMemory(probing: Probing, workspace: Workspace, slot: Slot): Promise<boolean | undefined> {
  const { bwrap, runInCgroup, signal } = probing
  const taken = `TAKEN ${2 * memoryBytes}`
  const takesMemory = `echo TAKEN $(head -c ${2 * memoryBytes} /dev/zero | tail | wc -c)`
  const output: Buffer[] = []
  const { memory } = await runInCgroup(
    bwrap,
    {
      workspace,
      slot,
      signal: AbortSignal.any([signal, AbortSignal.timeout(memoryTimeoutMs)]),
      onNotice: () => undefined,
      commands: [['sh', '-c', takesMemory]],
    },
    { limits: { memoryBytes, pids }, onOutput: (chunk) => output.push(chunk), onOutOfMemory: () => undefined },
  )
  if (Buffer.concat(output).toString('utf8').split('\n').includes(taken)) return false
  return memory && (memory.oomKills > 0 || memory.limitHits > 0) ? true : undefined
}

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

/** The last line of bubblewrap or the shell, with its meaning where that is known. */
function whyNot(output: string): string {
  const said = output.trim().split('\n').at(-1) ?? ''
  if (/No permissions to create new namespace|Creating new namespace failed|setting up uid map/i.test(said)) {
    return `${said} (user namespaces are switched off for this user; on Ubuntu see kernel.apparmor_restrict_unprivileged_userns)`
  }
  return said === '' ? 'it ended without a word' : said
}
