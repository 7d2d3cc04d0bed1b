import { crc32, deflateRawSync, gzipSync } from 'node:zlib'
import { type MadeEntry, tar, tarGz, zip } from './archives.ts'

// Archives of every hostile kind, each beside a harmless index.html where the format allows it.

const MiB = 1024 * 1024
const index: MadeEntry = { name: 'index.html', data: '<p>' }

/** What becomes of an archive: `refused` before or while it is read, or published with these entries left out. */
interface Hostile {
  readonly name: string
  readonly bytes: () => Buffer
  /** The error, or what `skipped_paths` lists. */
  readonly expected: RegExp | readonly string[]
  /** Refused by its first bytes, at the request. */
  readonly atOnce?: boolean
  /** Published besides index.html. */
  readonly kept?: readonly string[]
}

const damaged = /damaged|cannot be read/
const over1000 = /inflates to more than 1000 times its size/
const nested = (bytes: Buffer, times: number): Buffer =>
  times === 0 ? bytes : nested(zip([{ name: `${times}.zip`, data: bytes }]), times - 1)

/** A header of tar whose field at `offset` says this; the checksum is made right again. */
function patchedTar(entries: readonly MadeEntry[], offset: number, field: string | Buffer): Buffer {
  const bytes = tar(entries)
  Buffer.from(field).copy(bytes, offset)
  bytes.fill(' ', 148, 156)
  const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return gzipSync(bytes)
}

/** A header of its own with this type and body, before index.html. */
function taggedTar(type: string, body: Buffer): Buffer {
  const own = Buffer.from(tar([{ name: 'tag', data: body }])).subarray(0, -1024)
  own.write(type, 156, 'latin1')
  own.fill(' ', 148, 156)
  const sum = own.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  own.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return gzipSync(Buffer.concat([own, tar([index])]))
}

interface ZipParts {
  readonly name?: string | Buffer
  readonly localName?: string
  readonly method?: number
  readonly flags?: number
  readonly packed?: Buffer
  readonly size?: number
  readonly packedSize?: number
  readonly offset?: number
  readonly extra?: Buffer
}

/** A zip of deflated `data` whose two headers can be told apart, followed by a descriptor when the flags announce one. */
function craftedZip(
  entries: readonly ZipParts[],
  end: { readonly count?: number; readonly size?: number; readonly offset?: number } = {},
): Buffer {
  const data = Buffer.from('<p>')
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const entry of entries) {
    const packed = entry.packed ?? deflateRawSync(data)
    const name = Buffer.from(entry.name ?? 'index.html')
    const localName = Buffer.from(entry.localName ?? name)
    const streamed = ((entry.flags ?? 0) & 8) !== 0
    const fields = (nameLength: number, extraLength: number, local: boolean) => {
      const bytes = Buffer.alloc(26)
      bytes.writeUInt16LE(20, 0)
      bytes.writeUInt16LE(entry.flags ?? 0x800, 2)
      bytes.writeUInt16LE(entry.method ?? 8, 4)
      const known = !(local && streamed)
      bytes.writeUInt32LE(known ? crc32(data) : 0, 10)
      bytes.writeUInt32LE(known ? (entry.packedSize ?? packed.length) : 0, 14)
      bytes.writeUInt32LE(known ? (entry.size ?? data.length) : 0, 18)
      bytes.writeUInt16LE(nameLength, 22)
      bytes.writeUInt16LE(extraLength, 24)
      return bytes
    }
    const descriptor = Buffer.alloc(streamed ? 16 : 0)
    if (streamed) {
      descriptor.write('PK\x07\x08', 'latin1')
      descriptor.writeUInt32LE(crc32(data), 4)
      descriptor.writeUInt32LE(packed.length, 8)
      descriptor.writeUInt32LE(data.length, 12)
    }
    const body = Buffer.concat([Buffer.from('PK\x03\x04'), fields(localName.length, 0, true), localName, packed, descriptor])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE((0o100_644 << 16) >>> 0, 6)
    rest.writeUInt32LE(entry.offset ?? at, 10)
    const extra = entry.extra ?? Buffer.alloc(0)
    directory.push(Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), fields(name.length, extra.length, false), rest, name, extra)
    bodies.push(body)
    at += body.length
  }
  const central = Buffer.concat(directory)
  const tail = Buffer.alloc(22)
  tail.write('PK\x05\x06', 'latin1')
  tail.writeUInt16LE(end.count ?? entries.length, 8)
  tail.writeUInt16LE(end.count ?? entries.length, 10)
  tail.writeUInt32LE(end.size ?? central.length, 12)
  tail.writeUInt32LE(end.offset ?? at, 16)
  return Buffer.concat([...bodies, central, tail])
}

const bombBody = deflateRawSync(Buffer.alloc(30 * MiB))

const names: Hostile[] = (['tar.gz', 'zip'] as const).flatMap((format) => {
  const pack = format === 'zip' ? zip : tarGz
  const skipping = (
    name: string,
    entries: readonly MadeEntry[],
    skipped: readonly string[],
    kept: readonly string[] = [],
  ): Hostile => ({
    name: `${format}: ${name}`,
    bytes: () => pack([index, ...entries]),
    expected: skipped,
    kept,
  })
  // a zip without slashes was made by Windows
  const separated = (path: string) => (format === 'zip' ? path.replaceAll('\\', '/') : path)
  const one = (name: string, entry: string, listed = entry) => skipping(name, [{ name: entry, data: 'x' }], [listed])
  return [
    one('an absolute path', '/etc/cron.d/evil'),
    one('a path of the root twice', '//evil'),
    one('a climbing path', '../../../../tmp/evil'),
    one('a climb in the middle', 'a/../../evil'),
    one('a climb at the end', 'a/..'),
    one('a drive', 'C:evil.txt'),
    one('a share', '\\\\server\\share\\evil', separated('\\\\server\\share\\evil')),
    one('a backslash climb', '..\\..\\evil', separated('..\\..\\evil')),
    one('a carriage return', 'a\r\nSet-Cookie: x', 'a\ufffd\ufffdSet-Cookie: x'),
    one('a terminal sequence', '\x1b[2Jx', '\ufffd[2Jx'),
    one('a git folder', '.git/hooks/post-checkout'),
    one('environment files', '.env.local'),
    one('the platform prefix', '__svc/login'),
    one('the platform prefix in capitals', '__SVC/login'),
    one('a git folder in capitals', '.GIT/config'),
    one('a git folder below', 'a/.Git/config'),
    one('npm settings', 'a/.npmrc'),
    one('a segment of 256 bytes', 'n'.repeat(256), 'n'.repeat(256)),
    one('a path of 1,025 bytes', `${'d/'.repeat(512)}x`, `${'d/'.repeat(128)}…`),
    skipping('a percent climb is only a name', [{ name: '%2e%2e/x.txt', data: 'x' }], [], ['%2e%2e/x.txt']),
    skipping(
      'a link, then a file through it',
      [
        { name: 'l', type: 'symlink', data: '/tmp' },
        { name: 'l/evil', data: 'x' },
      ],
      ['l'],
      ['l/evil'],
    ),
    skipping('a link over a file', [{ name: 'index.html', type: 'symlink', data: '/etc/passwd' }], ['index.html']),
    skipping(
      'links, devices and pipes',
      [
        { name: 's', type: 'symlink', data: '../../etc/passwd' },
        { name: 'h', type: 'hardlink', data: '/etc/passwd' },
        { name: 'd', type: 'device' },
        { name: 'p', type: 'pipe' },
      ],
      ['d', 'h', 'p', 's'],
    ),
    skipping('a file twice', [{ name: 'index.html', data: 'evil' }], ['index.html']),
    skipping(
      'a file and a file below it',
      [
        { name: 'a', data: 'x' },
        { name: 'a/b', data: 'x' },
      ],
      ['a/b'],
      ['a'],
    ),
    skipping(
      'one name in two Unicode forms',
      [
        { name: '\u00e9', data: '1' },
        { name: 'e\u0301', data: '2' },
      ],
      ['e\u0301'],
      ['\u00e9'],
    ),
    skipping(
      'two cases of a name are two files',
      [
        { name: 'A.txt', data: '1' },
        { name: 'a.txt', data: '2' },
      ],
      [],
      ['A.txt', 'a.txt'],
    ),
    { name: `${format}: nothing in it`, bytes: () => pack([]), expected: /no index\.html|or an empty one/ },
    { name: `${format}: only folders`, bytes: () => pack([{ name: 'a/', type: 'folder' }]), expected: /no index\.html/ },
    { name: `${format}: only what is left out`, bytes: () => pack([{ name: '.env', data: 'x' }]), expected: /no index\.html/ },
    {
      name: `${format}: 20,001 entries`,
      bytes: () => pack(Array.from({ length: 20_001 }, (_, i) => ({ name: `${i}` }))),
      expected: /more than 20000 entries/,
    },
    {
      name: `${format}: a bomb by ratio`,
      bytes: () => pack([index, { name: 'b', data: Buffer.alloc(80 * MiB) }]),
      expected: over1000,
    },
    { name: `${format}: cut in half`, bytes: () => half(pack([index, { name: 'b', data: noise(100_000) }])), expected: damaged },
    {
      name: `${format}: as text with a line before`,
      bytes: () => Buffer.concat([Buffer.from('x\n'), pack([index])]),
      expected: /archive/,
      atOnce: true,
    },
  ] satisfies Hostile[]
})

const half = (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)
const noise = (length: number) => Buffer.from(Array.from({ length }, (_, i) => (i * i * 31 + (i >> 8)) % 251))

const tars: Hostile[] = [
  { name: 'a plain tar', bytes: () => tar([index]), expected: /archive/, atOnce: true },
  {
    name: 'a size below zero',
    bytes: () => patchedTar([index], 124, Buffer.from('ffffffffffffffffffffffff', 'hex')),
    expected: damaged,
  },
  {
    name: 'a size of eight exabytes',
    bytes: () => patchedTar([index], 124, Buffer.from('800000007fffffffffffffff', 'hex')),
    expected: damaged,
  },
  { name: 'a size larger than the archive', bytes: () => patchedTar([index], 124, '77777777777\0'), expected: damaged },
  { name: 'a size that is no number', bytes: () => patchedTar([index], 124, 'zzzzzzzzzzz\0'), expected: damaged },
  { name: 'a wrong checksum', bytes: () => gzipSync(Buffer.from(tar([index])).fill('1', 148, 154)), expected: damaged },
  {
    name: 'a name in the old prefix field that climbs',
    bytes: () => patchedTar([{ name: 'evil', data: 'x' }, index], 345, '../../..'),
    expected: ['../../../evil'],
  },
  {
    name: 'a pax header of 2 MB',
    bytes: () => taggedTar('x', Buffer.alloc(2 * MiB, '30 comment=xxxxxxxxxxxxxxxxxx\n')),
    expected: /no index\.html.*index\.html is left out: its extended header is larger than 1 MiB/,
  },
  {
    name: 'a pax header that is no pax',
    bytes: () => taggedTar('x', Buffer.from('999999999999 path=../evil\n-1 size=-5\nx')),
    expected: /./,
    kept: [],
  },
  { name: 'a pax size below zero', bytes: () => taggedTar('x', Buffer.from('11 size=-1\n')), expected: [] },
  {
    name: 'a pax size of an exabyte',
    bytes: () => taggedTar('x', Buffer.from('28 size=1152921504606846976\n')),
    expected: damaged,
  },
  {
    name: 'a pax path that climbs',
    bytes: () => taggedTar('x', Buffer.from('21 path=../../evil.x\n')),
    expected: /no index\.html/,
  },
  { name: 'a global pax path that climbs', bytes: () => taggedTar('g', Buffer.from('21 path=../../evil.x\n')), expected: [] },
  { name: 'a GNU long name that climbs', bytes: () => taggedTar('L', Buffer.from('../../evil\0')), expected: /no index\.html/ },
  {
    name: 'a GNU long name of 2 MB',
    bytes: () => taggedTar('L', Buffer.alloc(2 * MiB, 'n/')),
    expected: /left out: its extended header is larger/,
  },
  {
    name: 'a sparse file of GNU',
    bytes: () => patchedTar([{ name: 'sparse', data: 'x' }, index], 156, 'S'),
    expected: ['sparse'],
  },
  { name: 'a type that nobody knows', bytes: () => patchedTar([{ name: 'odd', data: 'x' }, index], 156, '?'), expected: ['odd'] },
  { name: 'compressed twice', bytes: () => gzipSync(tarGz([index])), expected: /compressed twice/ },
  {
    name: 'gzip in two members',
    bytes: () => Buffer.concat([gzipSync(tar([index]).subarray(0, 700)), gzipSync(tar([index]).subarray(700))]),
    expected: [],
  },
  {
    name: 'two archives in a row',
    bytes: () => Buffer.concat([tarGz([index]), tarGz([{ name: '../evil', data: 'x' }])]),
    expected: [],
  },
  {
    name: 'garbage after the gzip',
    bytes: () => Buffer.concat([tarGz([index]), Buffer.alloc(5000, 'garbage')]),
    expected: damaged,
  },
  { name: 'zeros after the gzip', bytes: () => Buffer.concat([tarGz([index]), Buffer.alloc(5000)]), expected: [] },
  { name: 'a gzip with a wrong checksum', bytes: () => wrongSum(tarGz([index])), expected: damaged },
  { name: 'a gzip of nothing', bytes: () => gzipSync(''), expected: /no index\.html|or an empty one/ },
  { name: 'a gzip of a zip', bytes: () => gzipSync(zip([index])), expected: damaged },
  {
    name: 'bytes that are no text in a name',
    bytes: () => patchedTar([{ name: 'bad-name', data: 'x' }, index], 0, Buffer.from([0xff, 0xfe, 0x80])),
    expected: /./,
    kept: [],
  },
]

function wrongSum(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  copy[copy.length - 6] = (copy[copy.length - 6] ?? 0) ^ 0xff
  return copy
}

const zips: Hostile[] = [
  { name: 'a climbing name in the local header only', bytes: () => craftedZip([{ localName: '../../evil' }]), expected: [] },
  {
    name: 'a harmless name in the local header only',
    bytes: () => craftedZip([{}, { name: '../../evil', localName: 'ok' }]),
    expected: ['../../evil'],
  },
  { name: 'sizes in a descriptor after the data', bytes: () => craftedZip([{ flags: 0x808 }]), expected: [] },
  { name: 'a method that nobody knows', bytes: () => craftedZip([{ method: 99 }]), expected: damaged },
  {
    name: 'stored, with two sizes',
    bytes: () => craftedZip([{ method: 0, packed: Buffer.from('<p>'), size: 3_000_000 }]),
    expected: damaged,
  },
  { name: 'a packed size beyond the end', bytes: () => craftedZip([{ packedSize: 0xfffffff }]), expected: damaged },
  { name: 'an offset beyond the end', bytes: () => craftedZip([{ offset: 0xfffffff }]), expected: damaged },
  { name: 'an offset into the middle', bytes: () => craftedZip([{ offset: 7 }]), expected: damaged },
  { name: 'packed data that is no deflate', bytes: () => craftedZip([{ packed: Buffer.alloc(50, 0xff) }]), expected: damaged },
  { name: 'encrypted', bytes: () => craftedZip([{ flags: 0x801 }]), expected: /encrypted/ },
  { name: 'strongly encrypted', bytes: () => craftedZip([{ flags: 0x841 }]), expected: /./ },
  {
    name: 'a zip64 size of exabytes',
    bytes: () => craftedZip([{ size: 0xffffffff, packedSize: 0xffffffff, extra: zip64(2n ** 62n, 2n ** 62n) }]),
    expected: damaged,
  },
  {
    name: 'a zip64 field cut short',
    bytes: () => craftedZip([{ size: 0xffffffff, extra: Buffer.from([1, 0, 16, 0, 1]) }]),
    expected: damaged,
  },
  {
    name: 'an honest zip64 field',
    bytes: () =>
      craftedZip([{ size: 0xffffffff, packedSize: 0xffffffff, extra: zip64(3n, BigInt(deflateRawSync('<p>').length)) }]),
    expected: [],
  },
  { name: 'more entries announced than there are', bytes: () => craftedZip([{}], { count: 9 }), expected: damaged },
  {
    name: 'fewer entries announced than there are',
    bytes: () => craftedZip([{}, { name: 'hidden' }], { count: 1 }),
    expected: /./,
    kept: [],
  },
  { name: 'a directory beyond the end', bytes: () => craftedZip([{}], { offset: 0xffffff0 }), expected: damaged },
  { name: '60,000 entries announced', bytes: () => craftedZip([{}], { count: 60_000 }), expected: /more than 20000 entries/ },
  { name: 'garbage after the end', bytes: () => Buffer.concat([zip([index]), Buffer.from('garbage')]), expected: damaged },
  {
    name: 'a comment that hides another end',
    bytes: () => Buffer.concat([zip([index]), zip([{ name: 'other', data: 'x' }])]),
    expected: /./,
    kept: [],
  },
  {
    name: 'entries that overlap, as bombs do',
    bytes: () =>
      craftedZip(
        Array.from({ length: 200 }, (_, i) => ({
          name: `f${i}`,
          packed: i === 0 ? bombBody : Buffer.alloc(0),
          packedSize: bombBody.length,
          size: 30 * MiB,
          offset: 0,
        })),
      ),
    expected: /checksum|1000 times|damaged/,
  },
  {
    name: 'a bomb inside of a zip inside of a zip',
    bytes: () => zip([index, { name: 'bomb.zip', data: nested(zip([{ name: 'b', data: Buffer.alloc(20 * MiB) }]), 4) }]),
    expected: [],
    kept: ['bomb.zip'],
  },
  {
    name: 'a name that is no UTF-8',
    bytes: () => craftedZip([{}, { name: Buffer.from([0x61, 0xff, 0xfe]) }]),
    expected: /./,
    kept: [],
  },
  { name: 'a name with NUL', bytes: () => craftedZip([{}, { name: 'evil.txt\0.html' }]), expected: ['evil.txt\ufffd.html'] },
  { name: 'an empty name', bytes: () => craftedZip([{}, { name: '' }]), expected: /./, kept: [] },
  {
    name: 'a name of 65,535 bytes',
    bytes: () => craftedZip([{}, { name: 'n'.repeat(65_535) }]),
    expected: [`${'n'.repeat(256)}…`],
  },
]

function zip64(size: bigint, packedSize: bigint): Buffer {
  const bytes = Buffer.alloc(20)
  bytes.writeUInt16LE(1, 0)
  bytes.writeUInt16LE(16, 2)
  bytes.writeBigUInt64LE(size, 4)
  bytes.writeBigUInt64LE(packedSize, 12)
  return bytes
}

export const hostileArchives: readonly Hostile[] = [
  ...names,
  ...tars.map((one) => ({ ...one, name: `tar.gz: ${one.name}` })),
  ...zips.map((one) => ({ ...one, name: `zip: ${one.name}` })),
]
