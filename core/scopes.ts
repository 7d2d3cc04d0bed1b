/** Key scopes from lowest to highest; each includes all lower ones. */
export const scopes = ['readonly', 'editor', 'full'] as const
export type Scope = (typeof scopes)[number]

/** The scopes that a key with this scope has. */
export const scopesOf = (scope: Scope): Scope[] => scopes.slice(0, scopes.indexOf(scope) + 1)

export const covers = (held: Scope, needed: Scope) => scopes.indexOf(held) >= scopes.indexOf(needed)
