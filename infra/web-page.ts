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

/** The policy of the platform's own pages: nothing but their style may load or run. */
export const webPagePolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

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
export const webPage = ({ lang = 'en', status, title, text, link }: WebPage): string => `<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
${status === undefined ? '' : `<p class="status">${status}</p>\n`}<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>
${link === undefined ? '' : `<p><a href="${escapeHtml(link.href)}">${escapeHtml(link.text)}</a></p>\n`}</main>
</body>
</html>
`
