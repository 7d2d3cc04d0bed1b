import type { BuildLogs } from './build-logs.ts'

export interface LogText {
  readonly text: string
  /** The byte after the text: where the next read begins. */
  readonly next_offset: number
  /** Whether the log had no more bytes at the time of reading. */
  readonly atEnd: boolean
}

export interface LogSpan {
  readonly offset: number
  /** The most bytes; a longer single character is read all the same. */
  readonly limit: number
  /** Whether the log is complete: an incomplete character at the end, left by a crash, is then returned as it is. */
  readonly ended: boolean
}

const maxCharacterBytes = 4

/** Reads whole UTF-8 characters; an offset inside a character is moved to its end. */
export async function readLogText(logs: BuildLogs, deployId: string, { offset, limit, ended }: LogSpan): Promise<LogText> {
  const { bytes, size } = await logs.read(deployId, offset, limit + maxCharacterBytes)
  let start = 0
  while (start < maxCharacterBytes - 1 && isContinuation(bytes[start])) start += 1
  let end = Math.min(bytes.length, Math.max(start, limit))
  const cut = lastBoundary(bytes, end)
  if (offset + end < size || !ended) end = cut > start ? cut : firstCharacterEnd(bytes, start)
  const next_offset = offset + end
  return { text: bytes.toString('utf8', start, end), next_offset, atEnd: next_offset >= size }
}

const isContinuation = (byte: number | undefined) => byte !== undefined && byte >> 6 === 0b10

const characterBytes = (lead: number) => (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1)

/** The last offset up to `end` that is not inside a character. */
function lastBoundary(bytes: Buffer, end: number): number {
  let lead = end - 1
  while (lead > 0 && end - lead < maxCharacterBytes && isContinuation(bytes[lead])) lead -= 1
  const first = bytes[lead]
  return first !== undefined && lead + characterBytes(first) > end ? lead : end
}

/** The end of the first character, or `start` while that is incomplete. */
function firstCharacterEnd(bytes: Buffer, start: number): number {
  const end = start + characterBytes(bytes[start] ?? 0)
  return end <= bytes.length ? end : start
}
