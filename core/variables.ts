/** The contexts in which a build may get a variable. */
export const variableContexts = ['production', 'preview'] as const
export type VariableContext = (typeof variableContexts)[number]

const KB = 1024
/** Variables of one site. */
export const maxVariables = 100
export const maxVariableBytes = 32 * KB
/** The values of all variables of one site together. */
export const maxVariablesBytes = 64 * KB

export const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/** Names that steer the sandbox and its tools, in any case. */
const reserved =
  /^(?:path|home|ci|plinth|node_options|(?:ld_|plinth_|npm_config_).{0,128}|(?:yarn_)?(?:https?|all|ftp|no)_proxy)$/i

/** Why a variable cannot have this name; undefined when it can. */
export function refusalOfName(name: string): string | undefined {
  if (!variableName.test(name))
    return 'the name of a variable has letters, digits and underscores, begins with no digit, and is at most 128 characters long'
  if (reserved.test(name))
    return `the platform sets ${name} itself, or it would change how builds are isolated; choose another name`
  return undefined
}

/** Why a variable cannot have this value; undefined when it can. */
export function refusalOfValue(value: string): string | undefined {
  if (value.includes('\0')) return 'the value has a NUL character, which no variable can hold'
  if (!value.isWellFormed()) return 'the value is not valid Unicode'
  if (new TextEncoder().encode(value).length > maxVariableBytes) return `the value has more than ${maxVariableBytes / KB} KB`
  return undefined
}
