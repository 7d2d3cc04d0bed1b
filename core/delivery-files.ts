const MB = 1024 * 1024

/** Links are `/__svc/d/<token>`, and their files `/__svc/d/<token>/<id of the file>`. */
export const deliveryPath = '/__svc/d/'
/** Where the logo of the page is. */
export const logoPath = (sha256: string) => `${deliveryPath}logo/${sha256}.webp`

export const maxDeliveryFiles = 3
export const maxDeliveryFileBytes = 50 * MB
/** A body above this is not looked at; one between the two limits is a file that is too large. */
export const maxDeliveryBodyBytes = 52 * MB
export const maxDeliveryNameLength = 120
export const maxDeliveryLabelLength = 80
export const maxPageTitleLength = 120
export const maxUpsellTextLength = 2000
/** The images that a file or a logo may be. */
export const imageTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
export const maxLogoBytes = 1 * MB
export const maxLinkTtlDays = 60
export const usualLinkTtlDays = 7

/** Names are cut before they are cleaned. */
const maxGivenNameLength = 1000

/**
 * The name under which a file is saved, of at most 120 characters: one line without control characters, invisible ones, those that change the
 * direction of the text, and those that separate folders or that Windows refuses. Empty when nothing is left.
 */
export function safeFileName(given: string): string {
  const cleaned = given
    .slice(0, maxGivenNameLength)
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .replace(/[/\\:*?"<>|]/g, '_')
    .trim()
    // a name that begins with a dot is hidden
    .replace(/^[.\s]+/, '')
  return Array.from(cleaned).slice(0, maxDeliveryNameLength).join('').trim()
}

/** The Content-Disposition of a download (RFC 6266). @param name from {@link safeFileName} */
export function attachmentOf(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
