import { listSettings, type Role, writeSettings } from '../config/setting.ts'
import { settings } from '../config/settings.ts'
import type { Config } from '../config.ts'

/**
 * The whole environment of one of our processes, made from the settings as the launcher has completed them; nothing else is inherited.
 * Each gets what the table of settings gives it and no more: the runner, which runs foreign code, has neither database nor operator token nor
 * secret key.
 */
export function childEnvironment(config: Config, role: Role): Record<string, string> {
  const handed = listSettings(settings).filter(({ setting }) => setting.processes.includes(role))
  const others = Object.entries({ ...config.inherited, ...(role === 'runner' ? config.npmEnvironment : {}) })
  const inherited = Object.fromEntries(others.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  return { ...inherited, ...writeSettings(handed, config) }
}
