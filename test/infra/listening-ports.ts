import { readdir, readFile, readlink } from 'node:fs/promises'

export interface ListeningPort {
  /** As in /proc/net/tcp: `0100007F` is 127.0.0.1. */
  readonly address: string
  readonly port: number
  /** The address as a connection takes it. */
  readonly host: string
}

/** The TCP ports that a process listens on (proc(5)). */
export async function listeningPorts(pid: number): Promise<ListeningPort[]> {
  const folder = `/proc/${pid}/fd`
  const links = await Promise.all((await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')))
  const inodes = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []))
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/${pid}/net/${name}`, 'utf8').catch(() => '')))
  return tables.flatMap((table) =>
    table
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      // 0A is LISTEN; the tenth field is the inode
      .filter((fields) => fields[3] === '0A' && inodes.has(fields[9] ?? ''))
      .map((fields) => {
        const [address = '', port = ''] = (fields[1] ?? '').split(':')
        return { address, port: Number.parseInt(port, 16), host: hostOf(address) }
      }),
  )
}

/** The bytes of an IPv4 address stand in the order of the machine; of IPv6 only the loopback address is known. */
function hostOf(address: string): string {
  if (address.length === 8) return Buffer.from(address, 'hex').toReversed().join('.')
  return address === '00000000000000000000000001000000' ? '::1' : address
}
