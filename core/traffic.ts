/** What the tops of a site list. */
export type TopKind = 'page' | 'source' | 'download' | 'not_found' | 'device' | 'bot_reason'
