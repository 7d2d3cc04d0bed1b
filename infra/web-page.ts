import { createHash } from 'node:crypto'
import { escapeHtml } from '../core/html.ts'

const style = `
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#5d6673;--paper:#f7f7f5;--line:#dcdcd6}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--dim:#9aa3ae;--paper:#14171a;--line:#2b3036}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-content:center;padding:2rem;background:var(--paper);color:var(--ink);
font:1.0625rem/1.6 system-ui,sans-serif}
main{max-width:30rem}
p{margin:.75rem 0 0;color:var(--dim)}
a{color:var(--ink)}
h1{margin:0;font-size:1.75rem;line-height:1.25;letter-spacing:-.01em;text-wrap:balance}
.status{margin:0 0 1rem;padding-bottom:1rem;border-bottom:1px solid var(--line);font:600 .875rem/1 ui-monospace,monospace;
letter-spacing:.08em}
`

/** The policy of a page: nothing but its style, and what is named besides, may load or run. */
const policyOf = (css: string, more: readonly string[] = [], formAction = "'none'") =>
  [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(css).digest('base64')}'`,
    ...more,
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ')

/** The policy of {@link webPage}. */
export const webPagePolicy = policyOf(style)

interface PageKind {
  readonly css: string
  readonly policy: readonly string[]
  /** Where its forms may be sent; by default nowhere. */
  readonly formAction?: "'self'"
}

interface PageParts {
  readonly lang: 'en' | 'ru'
  readonly title: string
  /** The address of the icon; by default browsers look for one by themselves. */
  readonly icon?: string | undefined
  /** HTML */
  readonly main: string
}

/** Makes pages in the style of the platform with rules and contents of their own. */
export function pageKind({ css, policy, formAction }: PageKind) {
  const own = style + css
  return { policy: policyOf(own, policy, formAction), html: (page: PageParts) => documentOf(page, own) }
}

/** What a page of the platform says; everything is text. */
export interface WebPage {
  readonly lang?: 'en' | 'ru'
  /** The HTTP status of an error. */
  readonly status?: number
  readonly title: string
  readonly text: string
  readonly link?: { readonly href: string; readonly text: string } | undefined
}

/** The HTML of a page in the style of the platform. */
export function webPage({ lang = 'en', status, title, text, link }: WebPage): string {
  const main = [
    ...(status === undefined ? [] : [`<p class="status">${status}</p>`]),
    `<h1>${escapeHtml(title)}</h1>`,
    `<p>${escapeHtml(text)}</p>`,
    ...(link === undefined ? [] : [`<p><a href="${escapeHtml(link.href)}">${escapeHtml(link.text)}</a></p>`]),
  ]
  return documentOf({ lang, title, main: main.join('\n') }, style)
}

const iconLink = (icon: string | undefined) => (icon === undefined ? '' : `\n<link rel="icon" href="${escapeHtml(icon)}">`)

const documentOf = ({ lang, title, icon, main }: PageParts, css: string) => `<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>${iconLink(icon)}
<style>${css}</style>
</head>
<body>
<main>
${main}
</main>
</body>
</html>
`
