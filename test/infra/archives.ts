import { crc32, deflateRawSync, gzipSync } from 'node:zlib'
import { Header } from 'tar'

/** An entry of a made-up archive; every lie that a real one could tell can be told. */
export interface MadeEntry {
  readonly name: string
  readonly data?: string | Buffer
  readonly type?: 'file' | 'folder' | 'symlink' | 'hardlink' | 'device' | 'pipe'
  readonly executable?: boolean
  /** Instead of the true checksum (zip). */
  readonly crc?: number
  /** Instead of the true inflated size (zip). */
  readonly size?: number
  readonly encrypted?: boolean
  /** Instead of the name in UTF-8 (zip); without `isUtf8` the flag of UTF-8 is not set. */
  readonly rawName?: Buffer
  readonly isUtf8?: boolean
  /** Instead of a type and permissions of Unix (zip). */
  readonly dosAttributes?: number
}

const tarTypes = {
  file: 'File',
  folder: 'Directory',
  symlink: 'SymbolicLink',
  hardlink: 'Link',
  device: 'CharacterDevice',
  pipe: 'FIFO',
} as const
const zipTypes = {
  file: 0o100_000,
  folder: 0o040_000,
  symlink: 0o120_000,
  hardlink: 0o120_000,
  device: 0o020_000,
  pipe: 0o010_000,
} as const

export const tarGz = (entries: readonly MadeEntry[]) => gzipSync(tar(entries))

export function tar(entries: readonly MadeEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(tarEntry), Buffer.alloc(1024)])
}

function tarEntry({ name, data = '', type = 'file', executable }: MadeEntry): Buffer[] {
  const bytes = Buffer.from(data)
  // the header's own field ends at NUL and at 100 bytes; pax records do not
  const pax = /\0/.test(name) || Buffer.byteLength(name) > 99 ? [paxRecord('path', name)] : []
  const header = Buffer.alloc(512)
  new Header({
    path: pax.length > 0 ? 'replaced' : name,
    type: tarTypes[type],
    size: type === 'file' ? bytes.length : 0,
    mode: executable ? 0o755 : 0o644,
    mtime: new Date(0),
    ...(type === 'symlink' || type === 'hardlink' ? { linkpath: data === '' ? '/etc/passwd' : String(data) } : {}),
  }).encode(header, 0)
  return [...pax, header, ...(type === 'file' ? [padded(bytes)] : [])]
}

function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`
  let length = Buffer.byteLength(rest)
  while (String(length).length + Buffer.byteLength(rest) !== length) length = String(length).length + Buffer.byteLength(rest)
  const bytes = Buffer.from(`${length}${rest}`)
  const header = Buffer.alloc(512)
  new Header({ path: 'PaxHeader', type: 'ExtendedHeader', size: bytes.length, mode: 0o644, mtime: new Date(0) }).encode(header, 0)
  return Buffer.concat([header, padded(bytes)])
}

const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)])

export function zip(entries: readonly MadeEntry[]): Buffer {
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const { name, data = '', type = 'file', executable, encrypted, ...lies } of entries) {
    const bytes = Buffer.from(data)
    const packed = deflateRawSync(bytes)
    const nameBytes = lies.rawName ?? Buffer.from(type === 'folder' && !name.endsWith('/') ? `${name}/` : name)
    const isUtf8 = lies.isUtf8 ?? lies.rawName === undefined
    const fields = Buffer.alloc(26)
    fields.writeUInt16LE(20, 0)
    fields.writeUInt16LE((isUtf8 ? 0x800 : 0) | (encrypted ? 1 : 0), 2)
    fields.writeUInt16LE(8, 4)
    fields.writeUInt32LE(lies.crc ?? crc32(bytes), 10)
    fields.writeUInt32LE(packed.length, 14)
    fields.writeUInt32LE(lies.size ?? bytes.length, 18)
    fields.writeUInt16LE(nameBytes.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), fields, nameBytes, packed])
    const attributes = Buffer.alloc(14)
    attributes.writeUInt32LE(lies.dosAttributes ?? ((zipTypes[type] | (executable ? 0o755 : 0o644)) << 16) >>> 0, 6)
    attributes.writeUInt32LE(offset, 10)
    directory.push(Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), fields, attributes, nameBytes)
    bodies.push(local)
    offset += local.length
  }
  const central = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...bodies, central, end])
}
