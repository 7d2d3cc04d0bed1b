import { acceptedRanges } from './accept.ts'

/** The languages of pages for visitors; the first is for those who read neither. */
export const pageLanguages = ['en', 'ru'] as const
export type PageLanguage = (typeof pageLanguages)[number]

/** The language of pages that an `Accept-Language` prefers (RFC 9110, 12.5.4). */
export function preferredLanguage(acceptLanguage: string | undefined): PageLanguage {
  let [best, bestQuality]: [PageLanguage, number] = [pageLanguages[0], 0]
  for (const { range, quality } of acceptedRanges(acceptLanguage)) {
    const language = pageLanguages.find((one) => range === one || range.startsWith(`${one}-`))
    if (language !== undefined && quality > bestQuality) [best, bestQuality] = [language, quality]
  }
  return best
}
