/** Every kind of finding, in the order of the list: warnings first. */
const kinds = {
  secret_suspected: {
    severity: 'warning',
    hint: 'If it is real, revoke it where it was issued, then deploy without it: everybody can read a published file.',
  },
  broken_link: {
    severity: 'warning',
    hint: 'Correct the address, or publish the file with the next deploy. Upper and lower case are different letters here.',
  },
  mixed_content: {
    severity: 'warning',
    hint: 'Write https:// instead: on a page that came over https, browsers block or change what is loaded over http.',
  },
  missing_title: {
    severity: 'warning',
    hint: 'Put <title>…</title> into its head: browsers show it on the tab, search engines as the headline of the result.',
  },
  missing_viewport: {
    severity: 'warning',
    hint: 'Put <meta name="viewport" content="width=device-width, initial-scale=1"> into its head.',
  },
  img_no_alt: {
    severity: 'warning',
    hint: 'Say what the image shows, alt="…", for people who cannot see it; alt="" when it is mere decoration.',
  },
  large_image: {
    severity: 'warning',
    hint: 'Scale it to the size at which it is shown, and save it as WebP or AVIF: few photos need more than 300 KB.',
  },
  rule_ignored: {
    severity: 'warning',
    hint: 'Correct or remove the line; the other lines apply. The page redirects-and-headers.md of the documentation shows what is allowed.',
  },
  cache_header_ignored: {
    severity: 'warning',
    hint: 'Remove the line. Caching follows the same rules on every site: files with a hash in their name are kept for a year, pages are revalidated.',
  },
  config_ignored: {
    severity: 'warning',
    hint: 'Write its redirects into _redirects and its headers into _headers, as the table in redirects-and-headers.md of the documentation shows.',
  },
  missing_lang: {
    severity: 'info',
    hint: 'Name it in the html tag, such as <html lang="en">: screen readers choose the voice by it, browsers offer a translation.',
  },
  missing_description: {
    severity: 'info',
    hint: 'Put <meta name="description" content="…"> into its head: one or two sentences that search engines show below the title.',
  },
  large_file: {
    severity: 'info',
    hint: 'Leave out what visitors do not need; split scripts, compress media.',
  },
  no_404: {
    severity: 'info',
    hint: 'Publish a 404.html at the root that says so and links to the start page. Leave it if the start page is an app with addresses of its own.',
  },
  no_favicon: {
    severity: 'info',
    hint: 'Publish a favicon.ico at the root, or name an icon in the head of the pages: <link rel="icon" href="…">.',
  },
} as const satisfies Record<string, { readonly severity: Severity; readonly hint: string }>

export const severities = ['info', 'warning'] as const
export type Severity = (typeof severities)[number]

export type RecommendationCode = keyof typeof kinds
export const recommendationCodes = Object.keys(kinds) as [RecommendationCode, ...RecommendationCode[]]

/** Advice on one file of a site (addendum E28). */
export interface Recommendation {
  readonly code: RecommendationCode
  readonly severity: Severity
  /** The file that it is about, or that is missing. */
  readonly path: string
  /** What is wrong. */
  readonly message: string
  /** What to do. */
  readonly hint: string
}

export const maxRecommendations = 100
/** The most pages that are listed for a recommendation that is no fault: such findings mostly come from a template. */
const maxInfosOfKind = 10

export interface Finding {
  readonly code: RecommendationCode
  readonly path: string
  readonly message: string
}

/** Collects findings and keeps no more of them than the list can show. */
export interface Findings {
  add(finding: Finding): void
  /** Warnings first, then kind by kind, then as they were added. A kind that is cut says in its last entry how many are left out. */
  list(): Recommendation[]
}

export function collectFindings(): Findings {
  const groups = new Map<RecommendationCode, { kept: Finding[]; count: number }>()
  return {
    add(finding) {
      const group = groups.get(finding.code) ?? { kept: [], count: 0 }
      groups.set(finding.code, group)
      group.count += 1
      const room = kinds[finding.code].severity === 'info' ? maxInfosOfKind : maxRecommendations
      if (group.kept.length < room) group.kept.push(finding)
    },
    list() {
      const room = shareRoom(groups)
      return recommendationCodes.flatMap((code) => {
        const { kept = [], count = 0 } = groups.get(code) ?? {}
        const shown = kept.slice(0, room.get(code))
        const left = count - shown.length
        return shown.map(({ path, message }, index) => {
          const rest = left > 0 && index === shown.length - 1 ? ` The same is true of ${left} more.` : ''
          return { code, severity: kinds[code].severity, path, message: message + rest, hint: kinds[code].hint }
        })
      })
    },
  }
}

/** How many entries of each kind fit: what small kinds do not need goes to the large ones. */
function shareRoom(
  groups: ReadonlyMap<RecommendationCode, { readonly kept: readonly unknown[] }>,
): Map<RecommendationCode, number> {
  let room = maxRecommendations
  let left = groups.size
  const shares = new Map<RecommendationCode, number>()
  for (const [code, { kept }] of [...groups].sort(([, a], [, b]) => a.kept.length - b.kept.length)) {
    const share = Math.min(kept.length, Math.floor(room / left))
    shares.set(code, share)
    room -= share
    left -= 1
  }
  return shares
}
