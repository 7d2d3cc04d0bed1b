import { lstat, readlink } from 'node:fs/promises'

export interface SandboxView {
  /** The folder with `relay.mjs`, `passwd` and the other files of `support.ts`. */
  readonly supportDir: string
  readonly toolchainDir: string
  /** Becomes /build, writable, the working directory. */
  readonly source: string
  /** Becomes the home folder, writable. */
  readonly home: string
  /** The egress relay's socket. */
  readonly socket: string
  readonly env: Readonly<Record<string, string>>
}

/** Where things are inside. */
export const inside = {
  source: '/build',
  home: '/home/build',
  toolchain: '/opt/node',
  socket: '/run/egress.sock',
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
  const support = (name: string, target: string) => ['--ro-bind', `${view.supportDir}/${name}`, target]
  return [
    // --unshare-user beside --unshare-all: without it the user namespace is optional, and --disable-userns is refused
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--die-with-parent'],
    ...['--cap-drop', 'ALL', '--clearenv', '--uid', '1000', '--gid', '1000', '--hostname', 'build'],
    ...['--ro-bind', '/usr', '/usr', ...support('empty', '/usr/local'), ...(await topFolders())],
    ...support('passwd', '/etc/passwd'),
    ...support('group', '/etc/group'),
    ...support('hosts', '/etc/hosts'),
    ...support('nsswitch.conf', '/etc/nsswitch.conf'),
    ...['/etc/ld.so.cache', '/etc/alternatives', '/etc/ssl/certs'].flatMap((path) => ['--ro-bind-try', path, path]),
    ...support('ca.pem', inside.caBundle),
    ...support('scripts', inside.support),
    ...['--proc', '/proc', '--dev', '/dev'],
    ...['--size', String(temporaryBytes), '--perms', '1777', '--tmpfs', '/dev/shm'],
    ...['--size', String(temporaryBytes), '--perms', '1777', '--tmpfs', '/tmp'],
    ...['--ro-bind', view.toolchainDir, inside.toolchain],
    ...['--bind', view.source, inside.source, '--bind', view.home, inside.home, '--bind', view.socket, inside.socket],
    // both are file systems in memory, without a size of their own
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...['--chdir', inside.source],
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
