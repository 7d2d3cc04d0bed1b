import { open } from 'node:fs/promises'
import { GitError, gitErrorOf } from './git-error.ts'
import type { Remote } from './remote.ts'
import { printable } from './resolve.ts'

export interface PackRequest {
  readonly commit: string
  /** The path of the new pack; it must not exist. */
  readonly file: string
  readonly maxPackBytes: number
}

/**
 * Writes the pack of one commit without its history into a file. Each packet is written at once, so the pack is never held in memory.
 * @throws GitError
 */
export async function downloadPack(remote: Remote, { commit, file, maxPackBytes }: PackRequest): Promise<void> {
  const version = remote.protocolVersion()
  const answer = await remote.uploadPack(
    version === 2 ? requestV2(commit) : requestV1(commit),
    // leaves room for the headers of packets and for progress messages
    maxPackBytes + maxPackBytes / 64 + 65_536,
    version === 2 ? { 'git-protocol': 'version=2' } : {},
  )
  await using output = await open(file, 'wx', 0o600)
  let bytes = 0
  try {
    for await (const line of packets(answer.body)) {
      if (line[0] === 1) {
        bytes += line.length - 1
        if (bytes > maxPackBytes) throw tooLargePack(maxPackBytes)
        await output.write(line, 1)
      } else if (line[0] === 3) throw refused(commit, line.toString('utf8', 1))
      else if (line.toString('latin1', 0, 4) === 'ERR ') throw refused(commit, line.toString('utf8', 4))
    }
  } catch (error) {
    if (error instanceof Error && 'reason' in error && error.reason === 'too_large') throw tooLargePack(maxPackBytes)
    throw gitErrorOf(error)
  }
  if (bytes === 0) throw new GitError('damaged', 'the git server sent no objects; try again')
}

const tooLargePack = (maxBytes: number) =>
  new GitError(
    'too_large',
    `the repository is too large: its newest commit alone takes more than ${Math.round(maxBytes / 1024 / 1024)} MB to fetch; keep large files out of it`,
  )

/** Appends the server's message to ours, in one line. */
function refused(commit: string, words: string): GitError {
  if (/not our ref|unadvertised object/i.test(words)) {
    return new GitError(
      'no_commit',
      `the commit ${commit} is not in the repository any more, or on no branch that the server gives out`,
    )
  }
  return new GitError('damaged', `the git server broke off: ${printable(words.trim())}`)
}

const flush = Buffer.from('0000')
const delimiter = Buffer.from('0001')
const packet = (text: string) => Buffer.from(`${(text.length + 5).toString(16).padStart(4, '0')}${text}\n`)

/** gitprotocol-v2, `fetch`: any commit that is reachable from a branch may be requested. */
const requestV2 = (commit: string) =>
  Buffer.concat([
    packet('command=fetch'),
    packet('agent=plinth'),
    delimiter,
    ...['ofs-delta', 'no-progress', 'deepen 1', `want ${commit}`, 'done'].map(packet),
    flush,
  ])

const requestV1 = (commit: string) =>
  Buffer.concat([
    packet(`want ${commit} side-band-64k ofs-delta no-progress agent=plinth`),
    packet('deepen 1'),
    flush,
    packet('done'),
  ])

/** The payloads of pkt-lines (gitprotocol-common). */
async function* packets(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of body) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (rest.length - at >= 4) {
      const length = packetLength(rest.toString('latin1', at, at + 4))
      if (rest.length - at < Math.max(length, 4)) break
      if (length > 4) yield rest.subarray(at + 4, at + length)
      at += Math.max(length, 4)
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new GitError('damaged', 'the git server broke off in the middle; try again')
}

/** 0 to 2 are marks without a payload; 3 is not used. */
function packetLength(header: string): number {
  if (!/^[0-9a-f]{4}$/i.test(header) || header === '0003')
    throw new GitError('not_git', 'the answer is not in the form of a git server')
  return Number.parseInt(header, 16)
}
