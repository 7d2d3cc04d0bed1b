const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** Encodes as RFC 4648 base32 in lower case and without padding, so that it can be a label of a host name. */
export function base32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let held = 0
  for (const byte of bytes) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += alphabet[held >> bits]
      held &= (1 << bits) - 1
    }
  }
  return bits === 0 ? text : text + alphabet[held << (5 - bits)]
}

/** The whole bytes of a text of {@link base32}; bits that are left over are not checked. Undefined when it has other characters. */
export function fromBase32(text: string): Buffer | undefined {
  const bytes: number[] = []
  let bits = 0
  let held = 0
  for (const character of text) {
    const value = alphabet.indexOf(character)
    if (value === -1) return undefined
    held = (held << 5) | value
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes.push(held >> bits)
    held &= (1 << bits) - 1
  }
  return Buffer.from(bytes)
}
