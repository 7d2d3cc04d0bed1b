import { nodeMajors } from './build-plan.ts'
import type { BuildSettingName } from './build-settings.ts'
import { parseRootDir } from './root-dir.ts'

export type ParsedSetting =
  | { readonly ok: true; readonly value: string | null }
  /** `reason` follows the name of the setting. */
  | { readonly ok: false; readonly reason: string }

const refused = (reason: string): ParsedSetting => ({ ok: false, reason })

export const maxCommandLength = 1000

/** Whether a text can be a command: one line of a bounded length. */
export const isCommand = (text: string) => text.isWellFormed() && /^\P{Cc}{0,1000}$/u.test(text)

const parseFolder = (text: string): ParsedSetting => {
  const parsed = parseRootDir(text)
  return parsed.ok ? { ok: true, value: parsed.rootDir } : refused(`${parsed.reason}; name a folder of the source`)
}

const parsers: Readonly<Record<BuildSettingName, (text: string) => ParsedSetting>> = {
  install_command: parseCommand,
  build_command: parseCommand,
  output_dir: parseOutputDir,
  root_dir: parseFolder,
  node_version: parseNodeVersion,
}

/** Validates and normalises a setting; an empty text sets nothing. */
export const parseBuildSetting = (name: BuildSettingName, text: string): ParsedSetting => parsers[name](text)

function parseCommand(text: string): ParsedSetting {
  if (!isCommand(text)) return refused(`must be one line of at most ${maxCommandLength} characters`)
  return { ok: true, value: text.trim() || null }
}

function parseOutputDir(text: string): ParsedSetting {
  const parsed = parseFolder(text)
  const isRoot = parsed.ok && parsed.value === null && text.trim() !== ''
  return isRoot ? refused('is the root of the source; name the folder that the build writes') : parsed
}

const versionForm = /^v?(\d{1,3})(?:\.(?:\d{1,5}|x)){0,2}$/

function parseNodeVersion(text: string): ParsedSetting {
  const wanted = text.length > 40 ? text : text.trim()
  if (wanted === '') return { ok: true, value: null }
  const major = nodeMajors.find((major) => String(major) === versionForm.exec(wanted)?.[1])
  return major
    ? { ok: true, value: String(major) }
    : refused(`must be ${nodeMajors.slice(0, -1).join(', ')} or ${nodeMajors.at(-1)}`)
}
