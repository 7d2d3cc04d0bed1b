/** Generators that are no npm packages. */
export type Generator = BuiltGenerator | MissingGenerator
/** Those that builds have. */
export type BuiltGenerator = 'hugo' | 'mkdocs'
/** Those whose sites are recognised to say what to do. */
export type MissingGenerator = 'jekyll' | 'zola'

export const isBuilt = (generator: Generator | undefined): generator is BuiltGenerator =>
  generator === 'hugo' || generator === 'mkdocs'

/** A file that may be the configuration of a generator. */
interface Sign {
  readonly path: string
  readonly generator: Generator
  /** What the file has to contain; undefined when its name is enough. */
  readonly content?: RegExp
}

const formats = ['toml', 'yaml', 'yml', 'json']

const signs: readonly Sign[] = [
  ...formats.map((format) => ({ path: `hugo.${format}`, generator: 'hugo' }) as const),
  ...formats.map((format) => ({ path: `config/_default/hugo.${format}`, generator: 'hugo' }) as const),
  ...formats.map((format) => ({ path: `config/_default/config.${format}`, generator: 'hugo' }) as const),
  { path: 'mkdocs.yml', generator: 'mkdocs' },
  { path: 'mkdocs.yaml', generator: 'mkdocs' },
  { path: '_config.yml', generator: 'jekyll' },
  { path: '_config.yaml', generator: 'jekyll' },
  { path: '_config.toml', generator: 'jekyll' },
  // the usual names until Hugo 0.110
  ...formats.map(
    (format) => ({ path: `config.${format}`, generator: 'hugo', content: /^[ \t]*"?baseURL"?[ \t]*[:=]/im }) as const,
  ),
  { path: 'config.toml', generator: 'zola', content: /^[ \t]*base_url[ \t]*=/m },
]

/**
 * The generator that a folder is made for, by its configuration.
 * @param has whether the folder has a file
 * @param read the beginning of one that it has
 */
export async function generatorOf(
  has: (path: string) => boolean,
  read: (path: string) => Promise<string>,
): Promise<Generator | undefined> {
  for (const { path, generator, content } of signs) {
    if (has(path) && (!content || content.test(await read(path)))) return generator
  }
  return undefined
}

const missing: Readonly<Record<MissingGenerator, readonly [name: string, needs: string, output: string]>> = {
  jekyll: ['Jekyll', 'Ruby', '_site'],
  zola: ['Zola', 'Zola', 'public'],
}

export function unavailable(generator: MissingGenerator): string {
  const [name, needs, output] = missing[generator]
  return `this is a site of ${name}, and builds have no ${needs}; build it yourself, and send the folder ${output} that ${name} writes`
}

/** Installed where no `requirements.txt` names another release. */
export const usualMkdocs = 'mkdocs==1.6.1'

export const noPython =
  'this is a site of MkDocs, and this server has no Python; ask the operator to install the package python3, or build the site yourself, and send the folder site that MkDocs writes'

/** The releases of Hugo that builds have, the oldest first. Each stands for those before it. */
export const hugoReleases = ['0.148.2', '0.155.3', '0.161.1', '0.168.0'] as const
export type HugoRelease = (typeof hugoReleases)[number]
const newestHugo: HugoRelease = '0.168.0'

/** The files that may name a version of Hugo, in the order in which they decide. */
export const hugoVersionFiles = ['.hugo-version', '.tool-versions', 'netlify.toml'] as const

const versionPatterns: Readonly<Record<(typeof hugoVersionFiles)[number], RegExp>> = {
  '.hugo-version': /^\s*v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\b/,
  '.tool-versions': /^hugo[ \t]+(?:extended_)?v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\b/m,
  'netlify.toml': /^[ \t]*"?HUGO_VERSION"?[ \t]*=[ \t]*["']v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)["']/m,
}

/** The version of Hugo that a file names. */
export interface HugoRequest {
  readonly file: (typeof hugoVersionFiles)[number]
  readonly version: string
}

export function hugoVersionIn(file: HugoRequest['file'], text: string): HugoRequest | undefined {
  const version = versionPatterns[file].exec(text)?.[1]
  return version === undefined ? undefined : { file, version }
}

export type HugoChoice =
  /** `note` says that another release is used than the one that was asked for. */
  | { readonly kind: 'hugo'; readonly release: HugoRelease; readonly note: string | undefined }
  | { readonly kind: 'refused'; readonly error: string }

/** The first release that is at least as new as the one asked for. */
export function chooseHugo(request: HugoRequest | undefined): HugoChoice {
  if (!request) return { kind: 'hugo', release: newestHugo, note: undefined }
  const { file, version } = request
  const release = hugoReleases.find((one) => one.localeCompare(version, 'en', { numeric: true }) >= 0)
  const asks = `${file} asks for Hugo ${version}`
  if (release === undefined) {
    const others = `${hugoReleases.slice(0, -1).join(', ')} and ${newestHugo}`
    return { kind: 'refused', error: `${asks}; builds have Hugo ${others}: name one of them, or none for Hugo ${newestHugo}` }
  }
  const isSame = release === version || release.startsWith(`${version}.`)
  return { kind: 'hugo', release, note: isSame ? undefined : `${asks}; builds have ${release} instead` }
}

/** Whether a command of a build runs MkDocs, or Python for something else. */
export const runsPython = (command: string) => /(?:^|[\s;&|(/])(?:mkdocs|pip|python3?)(?:$|[\s;&|)])/.test(command)

/** Whether a command of a build runs Hugo. */
export const runsHugo = (command: string) => /(?:^|[\s;&|(/])hugo(?:$|[\s;&|)])/.test(command)
