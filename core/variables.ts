/** The context in which a build may get a variable. */
export type VariableContext = 'production' | 'preview'
