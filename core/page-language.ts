/** The languages of pages for visitors; the first is for those who read neither. */
export const pageLanguages = ['en', 'ru'] as const
export type PageLanguage = (typeof pageLanguages)[number]

/** Longer headers than browsers send are not read. */
const maxHeaderLength = 1000

/** The language of pages that an `Accept-Language` prefers (RFC 9110, 12.5.4). */
export function preferredLanguage(acceptLanguage: string | undefined): PageLanguage {
  const [usual] = pageLanguages
  if (acceptLanguage === undefined || acceptLanguage.length > maxHeaderLength) return usual
  let [best, bestWeight]: [PageLanguage, number] = [usual, 0]
  for (const item of acceptLanguage.toLowerCase().split(',')) {
    const [range = '', weight = 'q=1'] = item.split(';').map((part) => part.trim())
    const language = pageLanguages.find((one) => range === one || range.startsWith(`${one}-`))
    const quality = Number(/^q=([01](?:\.\d{0,3})?)$/.exec(weight)?.[1] ?? 0)
    if (language !== undefined && quality > bestWeight) [best, bestWeight] = [language, quality]
  }
  return best
}
