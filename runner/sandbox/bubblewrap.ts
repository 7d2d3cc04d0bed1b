import { lstat, readlink } from 'node:fs/promises'

export interface SandboxView {
  /** The folder with `relay.mjs`, `passwd` and the other files of `support-files.ts`. */
  readonly supportDir: string
  /** The folder of Node and npm. */
  readonly toolchainDir: string
  /** The folder of another package manager, where the build needs one. */
  readonly packageManagerDir?: string | undefined
  /** The folder of a generator, where the build needs one. */
  readonly generatorDir?: string | undefined
  /** Becomes /build, writable, the working directory. */
  readonly source: string
  /** Becomes the home folder, writable. */
  readonly home: string
  readonly env: Readonly<Record<string, string>>
}

/** Where things are inside. */
export const inside = {
  source: '/build',
  home: '/home/build',
  toolchain: '/opt/node',
  packageManager: '/opt/package-manager',
  generator: '/opt/generator',
  support: '/opt/plinth',
  caBundle: '/etc/ssl/plinth-ca.pem',
} as const

/** In memory, so they count against the build's memory too. */
const temporaryBytes = 512 * 1024 * 1024

/**
 * Arguments of bubblewrap for a build: every namespace of its own, no capability, no nested user namespace, a root that
 * holds nothing but the listed mounts. Nothing of the host is visible except /usr (without /usr/local) and its certificates.
 */
export async function sandboxArguments(view: SandboxView): Promise<string[]> {
  const words = (text: string) => text.split(' ')
  const bind = (kind: '--bind' | '--ro-bind' | '--ro-bind-try', from: string, to: string) => [kind, from, to]
  const support = (name: string, to: string) => bind('--ro-bind', `${view.supportDir}/${name}`, to)
  const memory = (to: string) => words(`--size ${temporaryBytes} --perms 1777 --tmpfs ${to}`)
  return [
    // --unshare-user beside --unshare-all: without it the user namespace is optional, and --disable-userns is refused
    ...words('--unshare-all --unshare-user --disable-userns --new-session --die-with-parent'),
    ...words('--cap-drop ALL --clearenv --uid 1000 --gid 1000 --hostname build'),
    ...bind('--ro-bind', '/usr', '/usr'),
    ...support('empty', '/usr/local'),
    ...(await topFolders()),
    ...['passwd', 'group', 'hosts', 'nsswitch.conf'].flatMap((name) => support(name, `/etc/${name}`)),
    ...['/etc/ld.so.cache', '/etc/alternatives', '/etc/ssl/certs'].flatMap((path) => bind('--ro-bind-try', path, path)),
    ...support('ca.pem', inside.caBundle),
    ...support('scripts', inside.support),
    ...words('--proc /proc --dev /dev'),
    ...memory('/dev/shm'),
    ...memory('/tmp'),
    ...bind('--ro-bind', view.toolchainDir, inside.toolchain),
    ...(view.packageManagerDir ? bind('--ro-bind', view.packageManagerDir, inside.packageManager) : []),
    ...(view.generatorDir ? bind('--ro-bind', view.generatorDir, inside.generator) : []),
    ...bind('--bind', view.source, inside.source),
    ...bind('--bind', view.home, inside.home),
    // both are file systems in memory, without a size of their own
    ...words('--remount-ro /dev --remount-ro /'),
    ...words(`--chdir ${inside.source}`),
    ...Object.entries(view.env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** /bin, /lib and their kind: links into /usr on current systems, folders on older ones. */
async function topFolders(): Promise<string[]> {
  const args: string[] = []
  for (const path of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink()) args.push('--symlink', await readlink(path), path)
    else if (stats?.isDirectory()) args.push('--ro-bind', path, path)
  }
  return args
}
