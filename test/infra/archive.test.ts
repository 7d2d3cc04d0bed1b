import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AppError } from '../../core/errors.ts'
import { readArchive } from '../../infra/archive/archive.ts'
import { sniffArchive } from '../../infra/archive/sniff.ts'
import { type MadeEntry, tar, tarGz, zip } from './archives.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

let folder = ''
let count = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plinth-archive-'))
})
afterAll(() => rm(folder, { recursive: true }))

const MiB = 1024 * 1024
const grüße = 'grüße.txt'

async function read(bytes: Buffer, limits: { maxBytes?: number; maxEntries?: number } = {}) {
  const path = join(folder, String(++count))
  await writeFile(path, bytes)
  const files: Record<string, string> = {}
  const executables: string[] = []
  const content = await readArchive(path, {
    maxEntries: limits.maxEntries ?? 20_000,
    maxBytes: limits.maxBytes ?? 100 * MiB,
    overMaxBytes: 'over the quota',
    async onFile(file) {
      const chunks: Buffer[] = []
      for await (const chunk of file.bytes) chunks.push(chunk)
      const all = Buffer.concat(chunks)
      files[file.path] = all.length > 100 ? `${all.length} bytes` : all.toString()
      if (file.executable) executables.push(file.path)
    },
    async onCopy({ path, from }) {
      files[path] = files[from] ?? 'missing'
    },
  })
  expect([...content.paths].sort()).toEqual(Object.keys(files).sort())
  const skipped = content.skipped.map(({ path }) => path)
  return { files, executables, skipped, reasons: content.skipped.map(({ reason }) => reason) }
}

const onCopy = () => Promise.resolve()

const refusal = (bytes: Buffer, limits = {}) =>
  read(bytes, limits).then(
    () => 'read',
    (error: unknown) => {
      if (!(error instanceof AppError)) throw error
      return `${error.kind}: ${error.message}`
    },
  )

test.each<[string, Buffer, string | undefined]>([
  ['gzip', gzipSync('x'), 'tar.gz'],
  ['zip', zip([{ name: 'a', data: 'a' }]), 'zip'],
  ['empty zip', zip([]), 'zip'],
  ['plain tar', tar([{ name: 'a', data: 'a' }]), undefined],
  ['html', Buffer.from('<!doctype html>'), undefined],
  ['nothing', Buffer.alloc(0), undefined],
  ['half a signature', Buffer.from('PK'), undefined],
])('D02: the signature of %s is recognised from four bytes', (_name, bytes, format) => {
  expect(sniffArchive(bytes.subarray(0, 4))).toBe(format)
})

describe.each([
  ['tar.gz', tarGz],
  ['zip', zip],
])('a %s', (format, pack) => {
  test('D01: gives its files with content and executable bit, and makes nothing of folders', async () => {
    const { files, executables, skipped } = await read(
      pack([
        { name: './', type: 'folder' },
        { name: './index.html', data: '<p>' },
        { name: './empty/', type: 'folder' },
        { name: './a/b/run.sh', data: 'x', executable: true },
        { name: 'empty.txt' },
        { name: grüße.normalize('NFD'), data: 'é' },
        { name: 'big.bin', data: Buffer.alloc(3 * MiB, 7) },
      ]),
    )
    expect(files).toEqual({
      'index.html': '<p>',
      'a/b/run.sh': 'x',
      'empty.txt': '',
      [grüße.normalize('NFC')]: 'é',
      'big.bin': `${3 * MiB} bytes`,
    })
    expect(executables).toEqual(['a/b/run.sh'])
    expect(skipped).toEqual([])
  })

  test.each<[string, MadeEntry, string?]>([
    ['a path that climbs', { name: '../evil.txt', data: 'x' }],
    ['a path that climbs later', { name: 'a/../../evil.txt', data: 'x' }],
    ['a path that climbs after ./', { name: './../evil.txt', data: 'x' }, '../evil.txt'],
    ['an absolute path', { name: '/etc/evil.txt', data: 'x' }],
    ['a path with a drive', { name: 'C:/evil.txt', data: 'x' }],
    ['a line end', { name: 'a\nb', data: 'x' }, 'a\ufffdb'],
    ['a name of 300 bytes', { name: 'n'.repeat(300), data: 'x' }, `${'n'.repeat(256)}…`],
    ['a path of 1100 bytes', { name: `${'d/'.repeat(550)}x`, data: 'x' }, `${'d/'.repeat(128)}…`],
    ['a symbolic link out of it', { name: 'link', type: 'symlink', data: '/etc/passwd' }],
    ['a hard link out of it', { name: 'hard', type: 'hardlink', data: '/etc/passwd' }],
    ['a device', { name: 'null', type: 'device' }],
    ['a named pipe', { name: 'pipe', type: 'pipe' }],
    ['a folder that climbs', { name: '../up/', type: 'folder' }],
    ['a repository', { name: '.git/config', data: 'x' }],
    ['a package folder', { name: 'web/node_modules/x/index.js', data: 'x' }],
    ['a resource fork', { name: '__MACOSX/._index.html', data: 'x' }],
    ['a resource fork beside its file', { name: 'a/._b', data: 'x' }],
  ])('D01 V14: skips and lists %s', async (_name, entry, listed = entry.name) => {
    const { files, skipped } = await read(pack([entry, { name: 'index.html', data: 'ok' }]))
    expect(files).toEqual({ 'index.html': 'ok' })
    expect(skipped).toEqual([listed])
  })

  test.each<[string, MadeEntry[], Record<string, string>, string[]]>([
    [
      'the same path twice',
      [
        { name: 'a', data: '1' },
        { name: 'a', data: '2' },
      ],
      { a: '1' },
      ['a'],
    ],
    [
      'the same path in two spellings',
      [
        { name: 'a', data: '1' },
        { name: './a', data: '2' },
      ],
      { a: '1' },
      ['a'],
    ],
    [
      'one name in two Unicode forms',
      [
        { name: '\u00e9', data: '1' },
        { name: 'e\u0301', data: '2' },
      ],
      { '\u00e9': '1' },
      ['e\u0301'],
    ],
    [
      'a file below a file',
      [
        { name: 'a', data: '1' },
        { name: 'a/b/c', data: '2' },
      ],
      { a: '1' },
      ['a/b/c'],
    ],
    [
      'a file in the place of a folder',
      [
        { name: 'a/b/c', data: '1' },
        { name: 'a/b', data: '2' },
      ],
      { 'a/b/c': '1' },
      ['a/b'],
    ],
    [
      'a link first',
      [
        { name: 'a', type: 'symlink', data: '/tmp' },
        { name: 'a/b', data: '2' },
      ],
      { 'a/b': '2' },
      ['a'],
    ],
  ])('D01: of %s the first file wins and the other is listed', async (_name, entries, kept, listed) => {
    const { files, skipped } = await read(pack(entries))
    expect(files).toEqual(kept)
    expect(skipped).toEqual(listed)
  })

  test('V13 V14: service files of a source are kept, because a build may need them; the collector leaves them out', async () => {
    const { files } = await read(
      pack([
        { name: '.env', data: 'A=1' },
        { name: '__svc/x', data: 'x' },
        { name: '.npmrc', data: '' },
      ]),
    )
    expect(Object.keys(files).sort()).toEqual(['.env', '.npmrc', '__svc/x'])
  })

  test('lists the first files of a left-out folder and then the folder once', async () => {
    const entries = Array.from({ length: 700 }, (_, i) => ({ name: `node_modules/p/${i}.js`, data: 'x' }))
    const { skipped } = await read(pack([{ name: '.git/HEAD', data: 'x' }, ...entries]))
    expect(skipped).toHaveLength(22)
    expect(skipped[0]).toBe('.git/HEAD')
    expect(skipped.at(-1)).toBe('node_modules/**')
  })

  test.each<[string, { name: string; data: string }[], string]>([
    [
      'two files of one path',
      [
        { name: 'a', data: '1' },
        { name: './a', data: '2' },
      ],
      'a second entry with the same path',
    ],
    [
      'a file below a file',
      [
        { name: 'a', data: '1' },
        { name: 'a/b', data: '2' },
      ],
      'a file has the name of its folder',
    ],
    ['an absolute path', [{ name: '/etc/passwd', data: '1' }], 'the path is absolute'],
    ['a path out of the tree', [{ name: '../x', data: '1' }], 'the path contains ".."'],
  ])('says why %s is left out', async (_what, entries, reason) => {
    expect((await read(pack(entries))).reasons).toEqual([reason])
  })

  test('lists 500 skipped paths and says how many more there are', async () => {
    const entries = Array.from({ length: 600 }, (_, i) => ({ name: `../${i}`, data: 'x' }))
    const { skipped } = await read(pack(entries))
    expect(skipped).toHaveLength(501)
    expect(skipped.at(-1)).toBe('… and 100 more')
  })

  test('D01: has at most 20,000 entries, of whatever kind', async () => {
    const many = Array.from({ length: 20_001 }, (_, i) => ({ name: `f/${i}` }))
    expect(await refusal(pack(many))).toMatch(/^conflict: the archive has more than 20000 entries/)
    const mixed = [{ name: 'a' }, { name: 'b/', type: 'folder' }, { name: 'c', type: 'symlink' }] as const
    expect(await refusal(pack(mixed), { maxEntries: 2 })).toMatch(/^conflict: the archive has more than 2 entries/)
    expect(await refusal(pack(mixed), { maxEntries: 3 })).toBe('read')
  })

  test('D04: inflates to the quota at most', async () => {
    const entries = [
      { name: 'a', data: Buffer.alloc(MiB, 'abcdefgh') },
      { name: 'b', data: Buffer.alloc(MiB, 'stuvwxyz') },
    ]
    expect(await refusal(pack(entries), { maxBytes: 2 * MiB - 1 })).toBe('conflict: over the quota')
    expect(await refusal(pack(entries), { maxBytes: 3 * MiB })).toBe('read')
  })

  test('D01: a bomb is refused by its ratio, whatever the quota, and its file is named', async () => {
    const bomb = pack([{ name: 'a', data: Buffer.alloc(80 * MiB) }])
    expect(await refusal(bomb, { maxBytes: 1e12 })).toMatch(
      /^invalid: at a the archive turns out to be a zip bomb: it inflates to more than 1000 times its size/,
    )
  })

  test('D01: cut short anywhere, it is damaged', async () => {
    const whole = pack([
      { name: 'index.html', data: 'hello '.repeat(100) },
      { name: 'b', data: Buffer.alloc(5000, 'ab') },
    ])
    for (const part of [0.1, 0.4, 0.7, 0.95]) {
      expect(await refusal(whole.subarray(0, Math.ceil(whole.length * part)))).toMatch(
        new RegExp(`^invalid: the ${format} is damaged`),
      )
    }
  })

  test('a failure of the reader passes through and is not called damage', async () => {
    const path = join(folder, String(++count))
    await writeFile(
      path,
      pack([
        { name: 'a', data: 'a' },
        { name: 'b', data: Buffer.alloc(MiB) },
      ]),
    )
    const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })
    const reading = readArchive(path, {
      maxEntries: 9,
      maxBytes: 1e9,
      overMaxBytes: '',
      onFile: () => Promise.reject(full),
      onCopy,
    })
    await expect(reading).rejects.toBe(full)
  })
})

test.each<[string, Buffer, RegExp]>([
  [
    'a zip with a wrong checksum',
    zip([{ name: 'a', data: 'hello', crc: 1 }]),
    /^invalid: the zip is damaged.*a does not match its checksum/,
  ],
  ['a zip that says too small a size', zip([{ name: 'a', data: 'hello', size: 2 }]), /^invalid: the zip is damaged/],
  ['a zip that says too large a size', zip([{ name: 'a', data: 'hello', size: 4_000_000 }]), /^invalid: the zip is damaged/],
  [
    'an encrypted zip',
    zip([{ name: 'a', data: 'hello', encrypted: true }]),
    /^invalid: a in the zip is encrypted; pack the folder without a password/,
  ],
  ['a gzip that is no tar', gzipSync('hello '.repeat(1000)), /^invalid: the tar.gz is damaged/],
  ['a tar that is compressed twice', gzipSync(tarGz([{ name: 'a', data: 'a' }])), /^invalid: the archive is compressed twice/],
  [
    'a tar whose header is broken',
    gzipSync(tar([{ name: 'a', data: 'a' }]).fill(0x41, 100, 120)),
    /^invalid: the tar.gz is damaged/,
  ],
  ['a file that is no archive', Buffer.from('hello'), /^invalid: this is not an archive/],
])('D02: %s is refused with a clear message', async (_name, bytes, message) => {
  expect(await refusal(bytes)).toMatch(message)
})

test('D01: a NUL in a name is skipped in a zip, and ends the name in a tar', async () => {
  const entries = [{ name: 'evil.txt\0.html', data: 'x' }]
  expect(await read(zip(entries))).toMatchObject({ files: {}, skipped: ['evil.txt\ufffd.html'] })
  expect(await read(tarGz(entries))).toMatchObject({ files: { 'evil.txt': 'x' }, skipped: [] })
})

test('D01: names of 60 KB made of slashes cost nothing', bestOfThree, async () => {
  const name = `${'/'.repeat(60_000)}x/`
  const entries = Array.from({ length: 200 }, (_, i) => ({ name: `${i}${name}`, type: i % 2 ? 'file' : 'folder' }) as const)
  const began = performance.now()
  expect((await read(zip(entries))).files).toEqual({})
  expect((await read(tarGz(entries))).files).toEqual({})
  expect(performance.now() - began).toBeLessThan(5000)
})

describe.each([
  ['tar.gz', tarGz],
  ['zip', zip],
])('links in a %s', (format, pack) => {
  const link = (name: string, data: string, type: 'symlink' | 'hardlink' = 'symlink') => ({ name, data, type }) as const

  test('D01: a link to a file or a folder of the archive is a copy of it, also when it comes first', async () => {
    const { files, skipped } = await read(
      pack([
        link('./latest', 'v2'),
        link('index.html', 'pages/home.html'),
        { name: 'pages/home.html', data: 'home' },
        { name: 'v2/a.html', data: 'a' },
        { name: 'v2/b/c.html', data: 'c' },
        link('v2/b/up.html', '../../index.html'),
        link('through.html', 'latest/b/c.html'),
      ]),
    )
    expect(files).toEqual({
      'index.html': 'home',
      'latest/a.html': 'a',
      'latest/b/c.html': 'c',
      'pages/home.html': 'home',
      'through.html': 'c',
      'v2/a.html': 'a',
      'v2/b/c.html': 'c',
      'v2/b/up.html': 'home',
    })
    expect(skipped).toEqual([])
  })

  test('D01: other links are skipped, and the list says why', async () => {
    const { files, skipped, reasons } = await read(
      pack([
        { name: 'index.html', data: 'ok' },
        link('absolute', '/etc/passwd'),
        link('up', '../index.html'),
        link('nothing', 'nothing.html'),
        link('loop', 'loop'),
        link('__MACOSX/x', '../index.html'),
      ]),
    )
    expect(files).toEqual({ 'index.html': 'ok' })
    expect(skipped.map((path, i) => `${path}: ${reasons[i]}`)).toEqual([
      'absolute: a link out of the tree',
      'up: a link out of the tree',
      '__MACOSX/x: added by macOS',
      'nothing: a link to something that is not in the tree',
      'loop: a link that leads to too many other links',
    ])
  })

  test('D01: a link to the root holds each file once', async () => {
    const { files } = await read(pack([{ name: 'a/b', data: 'b' }, link('all', '.')]))
    expect(files).toEqual({ 'a/b': 'b', 'all/a/b': 'b' })
  })

  test('D01 D04: copies count as entries and as bytes', async () => {
    const entries = [{ name: 'a/b', data: Buffer.alloc(MiB) }, link('c', 'a'), link('d', 'a/b')]
    expect(await refusal(pack(entries), { maxBytes: 3 * MiB })).toBe('read')
    expect(await refusal(pack(entries), { maxBytes: 3 * MiB - 1 })).toBe('conflict: over the quota')
    const many = Array.from({ length: 100 }, (_, i) => ({ name: `a/${i}`, data: '' }))
    const bomb = pack([...many, ...Array.from({ length: 300 }, (_, i) => link(`b${i}`, 'a'))])
    expect(await refusal(bomb)).toMatch(/^conflict: the archive has more than 20000 entries/)
  })

  test.runIf(format === 'tar.gz')('D01: a hard link is relative to the root of the archive', async () => {
    const { files, skipped } = await read(pack([{ name: './a/b', data: 'b' }, link('./a/c', './a/b', 'hardlink')]))
    expect({ files, skipped }).toEqual({ files: { 'a/b': 'b', 'a/c': 'b' }, skipped: [] })
  })
})

describe('names in a zip', () => {
  test.each<[string, Buffer, string]>([
    ['UTF-8 without its flag', Buffer.from('über.html'), 'über.html'],
    ['UTF-8 of the Finder', Buffer.from('über.html'.normalize('NFD')), 'über.html'],
    ['code page 437', Buffer.from('gr\x94\xe1e.html', 'latin1'), 'größe.html'],
    ['ASCII', Buffer.from('a.html'), 'a.html'],
  ])('D01: %s is decoded', async (_what, rawName, path) => {
    const { files, skipped } = await read(zip([{ name: '', rawName, data: 'x' }]))
    expect({ files, skipped }).toEqual({ files: { [path]: 'x' }, skipped: [] })
  })

  test('D01: a name that says it is UTF-8 and is not is skipped and listed', async () => {
    const entries = [{ name: '', rawName: Buffer.from('gr\x94e.html', 'latin1'), isUtf8: true, data: 'x' }]
    const { files, reasons } = await read(zip(entries))
    expect({ files, reasons }).toEqual({ files: {}, reasons: ['the path is not valid UTF-8'] })
  })

  test('D01: backslashes separate folders in a zip without slashes', async () => {
    const { files, skipped } = await read(
      zip([
        { name: 'index.html', data: 'i' },
        { name: 'assets\\', data: '' },
        { name: 'assets\\js\\app.js', data: 'a' },
      ]),
    )
    expect({ files, skipped }).toEqual({ files: { 'index.html': 'i', 'assets/js/app.js': 'a' }, skipped: [] })
  })

  test('D01: beside slashes an entry with a backslash is skipped, and the reason says so', async () => {
    const { files, reasons } = await read(
      zip([
        { name: 'a/b', data: 'b' },
        { name: 'c\\d', data: 'd' },
      ]),
    )
    expect({ files, reasons }).toEqual({ files: { 'a/b': 'b' }, reasons: ['the path contains a backslash'] })
  })

  test('D01: a folder of DOS is no empty file', async () => {
    expect(
      (
        await read(
          zip([
            { name: 'folder', dosAttributes: 0x10 },
            { name: 'a', data: 'a' },
          ]),
        )
      ).files,
    ).toEqual({ a: 'a' })
  })
})

describe('a tar', () => {
  test('D01: names that are not UTF-8 are skipped and listed', async () => {
    const bytes = tar([{ name: 'cafX.txt', data: 'x' }])
    bytes[3] = 0xe9
    // the checksum of the header holds for the changed name
    const sum = bytes.subarray(0, 512).reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0)
    bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    const { files, reasons } = await read(gzipSync(bytes))
    expect({ files, reasons }).toEqual({ files: {}, reasons: ['the path is not valid UTF-8'] })
  })

  test('D01: one that ends inside a header is damaged', async () => {
    const bytes = tar([
      { name: 'index.html', data: 'x' },
      { name: 'b', data: 'y' },
    ])
    expect(await refusal(gzipSync(bytes.subarray(0, 1024 + 100)))).toMatch(/^invalid: the tar.gz is damaged/)
    // some archivers write no end
    expect((await read(gzipSync(bytes.subarray(0, 2048)))).files).toEqual({ 'index.html': 'x', b: 'y' })
  })
})

describe('sparse files in a tar', () => {
  const sparse = async (regions: number, ...options: string[]) => {
    const source = join(folder, `sparse-${++count}`)
    await mkdir(source)
    await writeFile(join(source, 'index.html'), 'i')
    await using file = await open(join(source, `${'long-'.repeat(25)}name.bin`), 'w')
    for (let i = 0; i < regions; i++) await file.write(Buffer.alloc(4096, 97 + (i % 26)), 0, 4096, (2 * i + 1) * 65_536)
    await file.truncate((2 * regions + 1) * 65_536)
    const packed = `${source}.tar`
    await execa('tar', ['-C', source, ...options, '--sparse', '-cf', packed, '.'])
    const bytes = await readFile(packed)
    return { bytes: gzipSync(bytes), raw: bytes, path: join(source, `${'long-'.repeat(25)}name.bin`) }
  }
  const contents = async (bytes: Buffer) => {
    const path = join(folder, String(++count))
    await writeFile(path, bytes)
    const files: Record<string, string> = {}
    await readArchive(path, {
      maxEntries: 9,
      maxBytes: 1e9,
      overMaxBytes: '',
      onCopy,
      async onFile(file) {
        const hash = createHash('sha256')
        for await (const chunk of file.bytes) hash.update(chunk)
        files[file.path] = hash.digest('hex')
      },
    })
    return files
  }

  test.each([
    ['the old form of GNU tar', ['--format=gnu']],
    ['pax 0.0', ['--format=posix', '--sparse-version=0.0']],
    ['pax 0.1', ['--format=posix', '--sparse-version=0.1']],
    ['pax 1.0, which bsdtar writes too', ['--format=posix', '--sparse-version=1.0']],
  ])('D01: in %s have their name and all their bytes', async (_form, options) => {
    for (const regions of [1, 3, 30, 400]) {
      const { bytes, path } = await sparse(regions, ...options)
      const files = await contents(bytes)
      const expected = createHash('sha256')
        .update(await readFile(path))
        .digest('hex')
      expect(Object.keys(files).sort()).toEqual(['index.html', basename(path)].sort())
      expect(files[basename(path)]).toBe(expected)
    }
  })

  test('D01: zeros that the archive does not hold count against the quota and the ratio', async () => {
    const { raw } = await sparse(1, '--format=posix', '--sparse-version=0.1')
    const text = raw.toString('latin1')
    const huge = Buffer.from(text.replace(/GNU\.sparse\.size=\d{6}/, 'GNU.sparse.size=999999'), 'latin1')
    expect(await refusal(gzipSync(huge), { maxBytes: 900_000 })).toBe('conflict: over the quota')
  })

  test('D01: a list of regions without line ends is damage, and is not read on', async () => {
    const { raw } = await sparse(1, '--format=posix', '--sparse-version=1.0')
    const list = '2\n65536\n4096\n196608\n0\n'
    const changed = raw.toString('latin1').replace(list, '1'.repeat(list.length))
    expect(changed).not.toBe(raw.toString('latin1'))
    expect(await refusal(gzipSync(Buffer.from(changed, 'latin1')))).toMatch(/a sparse file has a size that is no number/)
  })

  test('D01: regions that overlap or exceed the file are damage', async () => {
    const { raw } = await sparse(1, '--format=posix', '--sparse-version=0.1')
    const text = raw.toString('latin1')
    // as long as the true one, so that the lengths of the records hold
    for (const map of ['65536,4096,196608,9', '65536,4096,000008,0', '65536,9999,196608,0']) {
      const changed = text.replace('GNU.sparse.map=65536,4096,196608,0', `GNU.sparse.map=${map}`)
      expect(changed).not.toBe(text)
      expect(await refusal(gzipSync(Buffer.from(changed, 'latin1')))).toMatch(/^invalid: the tar.gz is damaged.*a sparse file/)
    }
  })
})

test('the reader of a file learns that the archive is cut short, and can close what it has opened', async () => {
  const path = join(folder, String(++count))
  await writeFile(path, tarGz([{ name: 'a', data: randomBytes(3 * MiB) }]).subarray(0, MiB))
  let closed = 0
  const reading = readArchive(path, {
    maxEntries: 9,
    maxBytes: 1e9,
    overMaxBytes: '',
    onCopy,
    async onFile(file) {
      try {
        for await (const _chunk of file.bytes);
      } finally {
        closed += 1
      }
    },
  })
  await expect(reading).rejects.toThrow('is damaged')
  expect(closed).toBe(1)
})

test('padding after the end of a tar is read past, and counted', async () => {
  const padding = Buffer.alloc(4 * MiB, 'padding')
  const bytes = gzipSync(Buffer.concat([tar([{ name: 'a', data: 'a' }]), padding]))
  expect((await read(bytes)).files).toEqual({ a: 'a' })
  const endless = gzipSync(Buffer.concat([tar([{ name: 'a', data: 'a' }]), Buffer.alloc(80 * MiB)]))
  expect(await refusal(endless)).toMatch(/^invalid: the archive is a zip bomb: it inflates to more than 1000 times its size/)
})

test('D04: what is skipped does not count against the quota, within reason', async () => {
  const bytes = tarGz([
    { name: 'index.html', data: 'x' },
    { name: 'node_modules/a', data: Buffer.alloc(3 * MiB) },
  ])
  expect((await read(bytes, { maxBytes: MiB })).files).toEqual({ 'index.html': 'x' })
})

test('memory stays bounded while a large archive is read', { timeout: 120_000 }, async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const noise = Buffer.from(Array.from({ length: 65_536 }, (_, i) => (i * 31) % 251))
  const bytes = tarGz([{ name: 'big', data: Buffer.concat(Array.from({ length: 3200 }, () => noise)) }])
  const path = join(folder, String(++count))
  await writeFile(path, bytes)
  const held = () => {
    // the second collection waits until the first has freed its buffers
    for (let i = 0; i < 2; i++) collect()
    return process.memoryUsage().arrayBuffers
  }
  const before = held()
  let [chunks, peak] = [0, 0]
  await readArchive(path, {
    maxEntries: 9,
    maxBytes: 1e9,
    overMaxBytes: '',
    onCopy,
    async onFile(file) {
      for await (const _chunk of file.bytes) if (++chunks % 2048 === 0) peak = Math.max(peak, held())
    },
  })
  expect(peak).toBeGreaterThan(0)
  expect(peak - before).toBeLessThan(16 * MiB)
})
