/** Of `user:password`, as some forges want it for git, only the password. */
export const passwordOf = (token: string) => token.slice(token.indexOf(':') + 1)

export const bearer = (token: string) => `Bearer ${passwordOf(token)}`

/** A user and password as such, a token alone with its scheme. */
export const basicOr = (scheme: string, token: string) =>
  token.includes(':') ? `Basic ${Buffer.from(token).toString('base64')}` : `${scheme} ${token}`
