import type { Forge } from '../../core/git-events.ts'

/** The forges that reports go to. */
export type ReportForge = Extract<Forge, 'github' | 'gitlab' | 'gitea' | 'bitbucket'>

export interface ForgeAddress {
  readonly forge: ReportForge
  /** The URL of the API, without a trailing slash. It is always on the repository's host, or on the known API host of that host. */
  readonly base: string
  /** `owner/name`; at GitLab with all groups. */
  readonly repository: string
}

/**
 * Finds the API of a repository.
 * @param seen the forge that sends the webhooks, which decides for unknown hosts
 * @returns undefined when the forge is unknown, or has no API for reports
 */
export function forgeAddress(repoUrl: string, seen: Forge | undefined): ForgeAddress | undefined {
  const url = URL.parse(repoUrl)
  const segments = (url?.pathname ?? '')
    .replace(/\.git\/?$/, '')
    .split('/')
    .filter(Boolean)
  const forge = url && (knownHost(url.hostname) ?? reportForge(seen))
  if (!forge || segments.length < 2) return undefined
  const repository = (forge === 'gitlab' ? segments : segments.slice(-2)).join('/')
  // a Gitea may live below a path
  const prefix = forge === 'gitea' ? segments.slice(0, -2).map((segment) => `/${segment}`) : []
  return { forge, base: apiBase(forge, url, prefix.join('')), repository }
}

function knownHost(host: string): ReportForge | undefined {
  if (host === 'github.com' || host.endsWith('.ghe.com')) return 'github'
  if (host === 'gitlab.com') return 'gitlab'
  if (host === 'bitbucket.org') return 'bitbucket'
  return host === 'codeberg.org' || host === 'gitea.com' ? 'gitea' : undefined
}

function reportForge(seen: Forge | undefined): ReportForge | undefined {
  return seen === 'github' || seen === 'gitlab' || seen === 'gitea' ? seen : undefined
}

function apiBase(forge: ReportForge, url: URL, prefix: string): string {
  if (forge === 'bitbucket') return 'https://api.bitbucket.org/2.0'
  if (forge === 'gitlab') return `${url.origin}/api/v4`
  if (forge === 'gitea') return `${url.origin}${prefix}/api/v1`
  if (url.hostname === 'github.com') return 'https://api.github.com'
  return url.hostname.endsWith('.ghe.com') ? `https://api.${url.hostname}` : `${url.origin}/api/v3`
}
