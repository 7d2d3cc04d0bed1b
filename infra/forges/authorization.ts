/** The password of `user:password`, a form that some forges need for git. */
export const passwordOf = (token: string) => token.slice(token.indexOf(':') + 1)

export const bearer = (token: string) => `Bearer ${passwordOf(token)}`

/** Uses Basic for a user and password, and the scheme for a token alone. */
export const basicOr = (scheme: string, token: string) =>
  token.includes(':') ? `Basic ${Buffer.from(token).toString('base64')}` : `${scheme} ${token}`
