/** What the tops of a site list. */
export type TopKind = 'page' | 'source' | 'download' | 'not_found' | 'device' | 'bot_reason'

/** The value of all values together that a site and day have beyond those that are kept one by one. */
export const otherValues = '(other)'
