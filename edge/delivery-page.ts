import { escapeHtml } from '../core/html.ts'
import type { PageLanguage } from '../core/page-language.ts'
import { pageKind } from '../infra/web-page.ts'
import type { RouteFile, RoutePage } from '../services/feeds/delivery.ts'
import type { Page } from './pages.ts'

const css = `
body{grid-template-columns:minmax(0,30rem)}
main{overflow-wrap:anywhere}
.logo{display:block;max-width:min(12rem,100%);max-height:6rem;margin:0 0 1.5rem}
.framed{padding:.5rem;border:1px solid var(--line);background:#fff}
.rounded{border-radius:1rem}
.text{white-space:pre-line}
ul{margin:1.5rem 0 0;padding:0;list-style:none;border-top:1px solid var(--line)}
li{border-bottom:1px solid var(--line)}
li a{display:flex;flex-wrap:wrap;justify-content:space-between;gap:.25rem 1rem;padding:.9rem 0;text-decoration:none}
li a:hover .name,li a:focus-visible .name{text-decoration:none}
.name{text-decoration:underline;text-underline-offset:.2em;font-weight:600;min-width:0}
.size{color:var(--dim);font-size:.9375rem;white-space:nowrap}
.end{font-size:.9375rem;text-wrap:balance}
`
const kind = pageKind({ css, policy: ["img-src 'self'"] })

const headers = [
  ['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', kind.policy],
  ['Cache-Control', 'private, no-store', 'X-Content-Type-Options', 'nosniff', 'Vary', 'Accept-Language'],
  ['Referrer-Policy', 'no-referrer', 'X-Robots-Tag', 'noindex'],
].flat()

const texts = {
  en: {
    one: 'Your file is ready',
    several: 'Your files are ready',
    download: 'Download',
    units: ['bytes', 'KB', 'MB'],
    end: (day: string) => `The link opens until ${day}.`,
  },
  ru: {
    one: 'Ваш файл готов',
    several: 'Ваши файлы готовы',
    download: 'Скачать',
    units: ['байт', 'КБ', 'МБ'],
    // the day ends with the dot of its abbreviated year
    end: (day: string) => `Ссылка открывается до ${day}`,
  },
} as const

const locales = { en: 'en-GB', ru: 'ru-RU' } as const
const days = { en: dayFormat('en'), ru: dayFormat('ru') }

function dayFormat(lang: PageLanguage) {
  return new Intl.DateTimeFormat(locales[lang], { dateStyle: 'long', timeZone: 'UTC' })
}

function sizeText(bytes: number, lang: PageLanguage): string {
  const [plain, kilo, mega] = texts[lang].units
  const [amount, unit] = bytes < 1024 ? [bytes, plain] : bytes < 1024 ** 2 ? [bytes / 1024, kilo] : [bytes / 1024 ** 2, mega]
  return `${new Intl.NumberFormat(locales[lang], { maximumFractionDigits: amount < 10 ? 1 : 0 }).format(amount)} ${unit}`
}

/** What the page of a link shows. */
export interface ShownDelivery {
  readonly lang: PageLanguage
  readonly page: RoutePage | null
  readonly files: readonly RouteFile[]
  readonly until: Date
  /** The paths of the logo, if there is one, and of the files. */
  readonly logoPath: string | undefined
  readonly pathOf: (file: RouteFile) => string
}

/** The page that lists the files of a link. What its owner wrote is text, whatever its direction. */
export function deliveryPage({ lang, page, files, until, logoPath, pathOf }: ShownDelivery): Page {
  const { one, several, download, end } = texts[lang]
  const title = page?.page_title ?? (files.length === 1 ? one : several)
  const classes = ['logo', ...(page?.page_logo_framed ? ['framed'] : []), ...(page?.page_logo_rounded ? ['rounded'] : [])]
  const items = files.map((file) => {
    const name = `<span class="name"><bdi>${escapeHtml(file.label ?? file.name)}</bdi></span>`
    const size = `<span class="size">${download}, ${sizeText(file.size, lang)}</span>`
    return `<li><a href="${escapeHtml(pathOf(file))}" download>${name}${size}</a></li>`
  })
  const main = [
    ...(logoPath === undefined ? [] : [`<img class="${classes.join(' ')}" src="${escapeHtml(logoPath)}" alt="">`]),
    `<h1 dir="auto">${escapeHtml(title)}</h1>`,
    ...(page?.upsell_text ? [`<p class="text" dir="auto">${escapeHtml(page.upsell_text)}</p>`] : []),
    `<ul>\n${items.join('\n')}\n</ul>`,
    `<p class="end">${escapeHtml(end(days[lang].format(until)))}</p>`,
  ]
  return { status: 200, headers, body: Buffer.from(kind.html({ lang, title, main: main.join('\n') })) }
}
