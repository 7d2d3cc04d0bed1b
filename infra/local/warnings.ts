import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getDomain } from 'tldts'
import { wildcardsWithoutDns } from '../acme/platform-names.ts'
import type { Config } from '../config.ts'

/** What the settings permit but the operator should know at every start. */
export function settingWarnings(config: Config): string[] {
  const { build, urls } = config
  const wildcards = wildcardsWithoutDns(config)
  const base = new URL(urls.base)
  const [ours, theirs] = [getDomain(base.hostname), getDomain(urls.platformDomain)]
  return [
    ...(build.sandbox === 'unsafe'
      ? ['PLINTH_BUILD_SANDBOX=unsafe: BUILDS MAY RUN, AND IMAGES BE DECODED, WITHOUT ISOLATION. Deploy only what you trust.']
      : []),
    ...(base.protocol === 'https:' && ours !== null && ours === theirs
      ? [
          `PLINTH_PLATFORM_DOMAIN and PLINTH_BASE_URL share the domain ${ours}: sites can set cookies for the API's host; give sites a domain of their own`,
        ]
      : []),
    ...(wildcards.length > 0
      ? [
          `${wildcards.join(' and ')} have no public certificate, browsers will warn: wildcards are proved through DNS, so set PLINTH_ACME_DNS_LISTEN and PLINTH_ACME_DNS_ZONE`,
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
