/** The settings of a build that a site, its git connection and `plinth.json` may set. */
export const buildSettingNames = ['install_command', 'build_command', 'output_dir', 'root_dir', 'node_version'] as const
export type BuildSettingName = (typeof buildSettingNames)[number]

/** The place where a setting is set, for messages. */
export type SettingOwner = 'the site' | 'the git connection' | 'plinth.json'

/** The settings of one owner; a null or absent member is not set. */
export type OwnSettings = { readonly [Name in BuildSettingName]?: string | null | undefined }

/** The settings of one build, merged from their owners. */
export interface BuildSettings {
  /** A shell command that replaces the usual install. */
  readonly install_command: string | null
  /** A shell command that replaces the build script. */
  readonly build_command: string | null
  /** The folder that is published. */
  readonly output_dir: string | null
  /** The folder that is built; null is the root. */
  readonly root_dir: string | null
  readonly node_version: string | null
  /** Who has set each member that is set. */
  readonly owners: { readonly [Name in BuildSettingName]?: SettingOwner }
  /** Whether the source comes from a repository, for messages. */
  readonly is_repository: boolean
}

/** Nothing is set. */
export const noSettings = (is_repository = false): BuildSettings => ({
  install_command: null,
  build_command: null,
  output_dir: null,
  root_dir: null,
  node_version: null,
  owners: {},
  is_repository,
})

/** Sets the members that the owner sets; the others stay. */
export function overrideSettings(settings: BuildSettings, owner: SettingOwner, own: OwnSettings): BuildSettings {
  const names = buildSettingNames.filter((name) => own[name] != null)
  const values = Object.fromEntries(names.map((name) => [name, own[name]]))
  const owners = Object.fromEntries(names.map((name) => [name, owner]))
  return { ...settings, ...values, owners: { ...settings.owners, ...owners } }
}

/** The owner of a setting; where it is not set, the one that is asked to set it. */
export const ownerOf = ({ owners, is_repository }: BuildSettings, name: BuildSettingName): SettingOwner =>
  owners[name] ?? (is_repository ? 'the git connection' : 'the site')
