/** Keeps the last bytes of everything pushed. */
export function createByteRing(maxBytes: number) {
  let chunks: Buffer[] = []
  let held = 0
  let total = 0

  function end(bytes: number): Buffer {
    const joined = Buffer.concat(chunks)
    return joined.subarray(Math.max(0, joined.length - bytes))
  }

  return {
    get size() {
      return total
    },
    push(chunk: Buffer): void {
      chunks.push(chunk)
      held += chunk.length
      total += chunk.length
      // half as much again may collect, so that it is cut once in a while and not for each chunk
      if (held <= maxBytes * 1.5) return
      chunks = [Buffer.from(end(maxBytes))]
      held = maxBytes
    },
    end,
    /** Returns the kept bytes and empties the ring. If bytes were dropped, the result begins with a whole line where it has one. */
    take(): { bytes: Buffer; dropped: number } {
      const all = end(maxBytes)
      const begin = total > all.length ? all.indexOf(0x0a) + 1 : 0
      const bytes = all.subarray(begin)
      const dropped = total - bytes.length
      chunks = []
      held = 0
      total = 0
      return { bytes, dropped }
    },
  }
}
