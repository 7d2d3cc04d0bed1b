import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getDomain } from 'tldts'
import type { Config } from '../config.ts'

/** What the settings permit but the operator should know at every start. */
export function settingWarnings({ build, urls }: Config): string[] {
  const base = new URL(urls.base)
  const [ours, theirs] = [getDomain(base.hostname), getDomain(urls.platformDomain)]
  return [
    ...(build.sandbox === 'unsafe'
      ? ['PLINTH_BUILD_SANDBOX=unsafe: BUILDS MAY RUN WITHOUT ISOLATION. Deploy only what you trust.']
      : []),
    ...(base.protocol === 'https:' && ours !== null && ours === theirs
      ? [
          `PLINTH_PLATFORM_DOMAIN and PLINTH_BASE_URL share the domain ${ours}: sites can set cookies for the API's host; give sites a domain of their own`,
        ]
      : []),
  ]
}

/** How builds are isolated, as the runner has found out by trying. */
export async function isolationLine(buildDir: string): Promise<string> {
  const status = JSON.parse(await readFile(join(buildDir, 'status.json'), 'utf8')) as {
    level: string
    builds: boolean
    problems: string[]
  }
  const isolated = status.level.startsWith('A')
  const summary = isolated
    ? `builds are isolated (level ${status.level})`
    : status.builds
      ? 'BUILDS RUN WITHOUT ISOLATION'
      : 'builds are refused'
  return [summary, ...status.problems].join('; ')
}
