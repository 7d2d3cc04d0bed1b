export const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

export const code = (text: string, kind = '') => `<code${kind && ` class="${kind}"`}>${escapeHtml(text)}</code>`
