/** Documents that the login page of a site shows. */
export const maxDocuments = 3
export const maxDocumentTitleLength = 80
export const maxDocumentUrlLength = 2048

/** Whether browsers take the text for an https address as it is, without a user name, which could hide the host. */
export function isDocumentUrl(text: string): boolean {
  if (text.length > maxDocumentUrlLength || /[\s\p{Cc}\\]/u.test(text) || !text.isWellFormed()) return false
  const url = text.startsWith('https://') ? URL.parse(text) : null
  return url !== null && url.username === '' && url.password === '' && !text.slice(0, hostEnd(text)).includes('@')
}

/** Where the authority of the address ends. */
function hostEnd(text: string): number {
  const end = text.slice('https://'.length).search(/[/?#]/)
  return end === -1 ? text.length : 'https://'.length + end
}
