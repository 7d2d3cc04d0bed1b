/**
 * Applies a delta of gitformat-pack. Undefined when it is invalid, does not match the base or does not have the announced result. The caller
 * checks `resultSizeOf` first: the result is never larger.
 */
export function applyDelta(base: Buffer, delta: Buffer): Buffer | undefined {
  const header = readSizes(delta)
  if (!header || header.baseSize !== base.length) return undefined
  const result = Buffer.allocUnsafe(header.resultSize)
  let at = header.end
  let made = 0
  while (at < delta.length) {
    const op = delta[at++] as number
    if (op & 0x80) {
      const { offset, size, end } = readCopy(delta, op, at)
      at = end
      if (offset + size > base.length || made + size > result.length) return undefined
      base.copy(result, made, offset, offset + size)
      made += size
    } else {
      if (op === 0 || at + op > delta.length || made + op > result.length) return undefined
      delta.copy(result, made, at, at + op)
      at += op
      made += op
    }
  }
  return made === result.length ? result : undefined
}

export const resultSizeOf = (delta: Buffer): number | undefined => readSizes(delta)?.resultSize

/** The bits of the operation tell which bytes of offset and size follow; a size of 0 means 64 KiB. */
function readCopy(delta: Buffer, op: number, start: number) {
  let at = start
  const field = (firstBit: number, bytes: number) => {
    let value = 0
    for (let i = 0; i < bytes; i++) if (op & (firstBit << i)) value += (delta[at++] ?? 0) * 2 ** (8 * i)
    return value
  }
  const offset = field(0x01, 4)
  const size = field(0x10, 3) || 0x10000
  return { offset, size, end: at }
}

function readSizes(delta: Buffer) {
  const base = readVarint(delta, 0)
  const result = base && readVarint(delta, base.end)
  return result && { baseSize: base.value, resultSize: result.value, end: result.end }
}

/** Seven bits a byte, the lowest first. Undefined when it does not end, or not below 2^42. */
function readVarint(bytes: Buffer, start: number): { readonly value: number; readonly end: number } | undefined {
  let value = 0
  for (let i = 0; i < 6; i++) {
    const byte = bytes[start + i]
    if (byte === undefined) return undefined
    value += (byte & 0x7f) * 128 ** i
    if (!(byte & 0x80)) return { value, end: start + i + 1 }
  }
  return undefined
}
