/** Key scopes from lowest to highest; each includes those before it. */
export const scopes = ['readonly', 'editor', 'full'] as const
export type Scope = (typeof scopes)[number]

/** The scopes that a key of this level has. */
export const scopesOf = (scope: Scope): Scope[] => scopes.slice(0, scopes.indexOf(scope) + 1)

export const covers = (held: Scope, needed: Scope) => scopes.indexOf(held) >= scopes.indexOf(needed)
