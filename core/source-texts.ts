/** Whether the text was decoded as UTF-8 although it is UTF-16: its byte order mark is invalid, and every second byte of Latin letters is a NUL. */
export const isUtf16 = (text: string): boolean => text.startsWith('\uFFFD\uFFFD') || text.includes('\0')

export const notUtf8 = (name: string): string => `${name} is not in UTF-8 (PowerShell writes UTF-16): save it as UTF-8`
