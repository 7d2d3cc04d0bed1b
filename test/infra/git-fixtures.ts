import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { deflateSync } from 'node:zlib'
import { readArchive } from '../../infra/archive/archive.ts'

export interface ReadFile {
  readonly text: string
  readonly executable: boolean
}

/** The files of a source archive, as a build reads them. */
export async function filesOf(archive: string): Promise<Record<string, ReadFile>> {
  const files: Record<string, ReadFile> = {}
  await readArchive(archive, {
    maxEntries: 100_000,
    maxBytes: 1024 ** 3,
    overMaxBytes: 'too large',
    onFile: async ({ path, executable, bytes }) => {
      const chunks: Buffer[] = []
      for await (const chunk of bytes) chunks.push(chunk)
      files[path] = { text: Buffer.concat(chunks).toString(), executable }
    },
    onCopy: async ({ path, from }) => {
      files[path] = files[from] as ReadFile
    },
  })
  return files
}

const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 0x7f) | 0x80, ...varint(Math.floor(value / 128))])

export interface MadeObject {
  /** 1 commit, 2 tree, 3 blob, 6 and 7 deltas by offset and by id */
  readonly type: number
  readonly data: Buffer
  /** Instead of the true one. */
  readonly size?: number
  /** What comes between size and data: of a delta, its base. */
  readonly base?: Buffer
}

/** A pack in which every lie can be told. */
export function makePack(objects: readonly MadeObject[], count = objects.length): Buffer {
  const header = Buffer.alloc(12)
  header.write('PACK')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(count, 8)
  const body = Buffer.concat([header, ...objects.map(packed)])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}

function packed({ type, data, size = data.length, base = Buffer.alloc(0) }: MadeObject): Buffer {
  const rest = Math.floor(size / 16)
  const head = [(type << 4) | (size & 15) | (rest > 0 ? 0x80 : 0), ...(rest > 0 ? varint(rest) : [])]
  return Buffer.concat([Buffer.from(head), base, deflateSync(data)])
}

export const idOf = (type: string, data: Buffer): Buffer =>
  createHash('sha1').update(`${type} ${data.length}\0`).update(data).digest()

/** A delta that makes its result out of copies of the first bytes of its base. */
export function copies(baseSize: number, count: number, size: number, resultSize = count * size): Buffer {
  const copy = [0x80 | 0x10 | 0x20 | 0x40, size & 0xff, (size >> 8) & 0xff, (size >> 16) & 0xff]
  return Buffer.concat([Buffer.from([...varint(baseSize), ...varint(resultSize)]), Buffer.alloc(4 * count, Buffer.from(copy))])
}

export const packet = (data: Buffer | string): Buffer => {
  const bytes = Buffer.from(data)
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes])
}

/** What git-upload-pack answers by protocol 1. */
export function packAnswer(pack: Buffer): Buffer {
  const parts = [packet('NAK\n')]
  for (let at = 0; at < pack.length; at += 65_000)
    parts.push(packet(Buffer.concat([Buffer.from([1]), pack.subarray(at, at + 65_000)])))
  return Buffer.concat([...parts, Buffer.from('0000')])
}

/**
 * The processes that fetch for this one, or for another one.
 * @param dir where they work
 */
export function fetchingProcesses(parent = process.pid, dir = '/'): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const ppid = readFileSync(`/proc/${pid}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')[1]
        if (Number(ppid) !== parent || !readlinkSync(`/proc/${pid}/cwd`).startsWith(dir)) return false
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('fetch-child')
      } catch {
        return false
      }
    })
    .map(Number)
}
