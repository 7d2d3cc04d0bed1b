import { z } from 'zod'
import { schemaText } from '../schema-text.ts'
import { ConfigError } from './error.ts'

/** Our processes, besides the launcher. */
export type Role = 'api' | 'worker' | 'runner' | 'edge'

export interface Setting {
  /** The environment variable. */
  readonly name: string
  /** A codec from the variable's text to the value in the configuration, and back. */
  readonly schema: z.ZodType
  /** The default, as the text of the variable. */
  readonly default?: string
  /** For the documentation of a setting without a fixed default: what happens, or which value is used, when it is not set. Markdown. */
  readonly otherwise?: string
  /** The processes that the launcher hands it to. The launcher itself reads all of them. */
  readonly processes: readonly Role[]
  /** One sentence for the documentation. Markdown. */
  readonly about: string
}

/** Settings in the nested form of the configuration. */
export interface SettingsTable {
  readonly [key: string]: Setting | SettingsTable
}

/** The values of a table of settings; undefined where nothing is set and there is no default. */
export type SettingValues<Table> = {
  -readonly [Key in keyof Table]: Table[Key] extends Setting
    ? z.output<Table[Key]['schema']> | (Table[Key] extends { readonly default: string } ? never : undefined)
    : SettingValues<Table[Key]>
}

export type Environment = Readonly<Record<string, string | undefined>>

export interface PlacedSetting {
  /** The path of its value in the configuration. */
  readonly path: readonly string[]
  readonly setting: Setting
}

const isSetting = (entry: Setting | SettingsTable): entry is Setting => typeof entry.name === 'string'

/** All settings of a table, in order. */
export const listSettings = (table: SettingsTable, parents: readonly string[] = []): PlacedSetting[] =>
  Object.entries(table).flatMap(([key, entry]) => {
    const path = [...parents, key]
    return isSetting(entry) ? [{ path, setting: entry }] : listSettings(entry, path)
  })

/**
 * Reads all settings of a table; an empty variable counts as one that is not set.
 * @throws ConfigError naming the variable and what is wrong with it
 */
export function readSettings<Table extends SettingsTable>(table: Table, env: Environment): SettingValues<Table> {
  const entries = Object.entries(table).map(([key, entry]) => [
    key,
    isSetting(entry) ? readSetting(entry, env) : readSettings(entry, env),
  ])
  return Object.fromEntries(entries) as SettingValues<Table>
}

function readSetting({ name, schema, default: fallback }: Setting, env: Environment): unknown {
  const text = env[name] || fallback
  if (text === undefined) return undefined
  const parsed = schema.safeParse(text, { error: schemaText })
  if (parsed.success) return parsed.data
  throw new ConfigError(`${name} ${parsed.error.issues[0]?.message ?? 'is not valid'}`)
}

/** The variables that make {@link readSettings} read these values again; a setting without a value is left out. */
export function writeSettings(settings: readonly PlacedSetting[], values: object): Record<string, string> {
  const written = settings.flatMap(({ path, setting: { name, schema } }) => {
    const value = path.reduce<unknown>((parent, key) => (parent as Record<string, unknown> | undefined)?.[key], values)
    return value === undefined ? [] : [[name, String(z.encode(schema, value))]]
  })
  return Object.fromEntries(written) as Record<string, string>
}
