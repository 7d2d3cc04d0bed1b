/** A setting that the operator has to correct; its message is printed without a stack. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}
