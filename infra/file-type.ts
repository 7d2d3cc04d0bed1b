import { fileTypeFromBuffer } from 'file-type'

/** How a file begins, and the types that such a file may have. */
const signatures: readonly { readonly bytes: Buffer; readonly types: readonly string[] }[] = [
  { bytes: Buffer.from('%PDF-'), types: ['application/pdf'] },
  { bytes: Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), types: ['image/png', 'image/apng'] },
  { bytes: Buffer.from([0xff, 0xd8, 0xff]), types: ['image/jpeg'] },
  { bytes: Buffer.from('GIF8'), types: ['image/gif'] },
  { bytes: Buffer.from('RIFF'), types: ['image/webp'] },
  {
    bytes: Buffer.from('PK\x03\x04'),
    types: [
      'application/zip',
      'application/epub+zip',
      'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
      'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
      'application/vnd.openxmlformats-officedocument.presentationml.presentation',
      'application/vnd.oasis.opendocument.text',
      'application/vnd.oasis.opendocument.spreadsheet',
      'application/vnd.oasis.opendocument.presentation',
    ],
  },
]

const signatureOf = (head: Buffer) => signatures.find(({ bytes }) => head.subarray(0, bytes.length).equals(bytes))

/** What a parser of a stranger's file gets to see. */
const sampleBytes = 4100

/**
 * Finds out the type of a file from its first bytes: PDF, PNG, JPEG, GIF, WebP or zip, of which office documents and EPUB have types of
 * their own. Undefined for others, and for text.
 */
async function binaryType(head: Buffer): Promise<string | undefined> {
  const signature = signatureOf(head)
  if (!signature) return undefined
  const [usual, ...others] = signature.types
  const found = (await fileTypeFromBuffer(head.subarray(0, sampleBytes)).catch(() => undefined))?.mime
  if (found !== undefined && others.includes(found)) return found
  // a type without a signature of its own, such as a jar, is what it begins as; a RIFF file may be no picture at all
  return usual === 'image/webp' && found !== usual ? undefined : usual
}

/** The type of an image that begins like a PNG, JPEG, GIF or WebP; undefined for other bytes. */
export const imageType = (head: Buffer): string | undefined => signatureOf(head)?.types.find((type) => type.startsWith('image/'))

const textType = 'text/plain; charset=utf-8'

/** Follows the bytes of a file to find out its type. */
export interface TypeDetector {
  /** @returns false as soon as the file has no accepted type */
  see(chunk: Buffer): Promise<boolean>
  /** The media type of the whole file; undefined when it has no accepted type. */
  end(): Promise<string | undefined>
}

/** The types that {@link detectType} accepts: those above, and text in UTF-8 that is no HTML, SVG or XML. Polyglots are what they begin as. */
export function detectType(): TypeDetector {
  let head = Buffer.alloc(0)
  let binary: string | undefined
  let text: ReturnType<typeof followText> | undefined

  async function decide(): Promise<boolean> {
    binary = await binaryType(head)
    if (binary !== undefined) return true
    text = followText()
    return text.see(head)
  }

  return {
    async see(chunk) {
      if (binary !== undefined) return true
      if (text) return text.see(chunk)
      head = Buffer.concat([head, chunk])
      return head.length < sampleBytes || (await decide())
    },
    async end() {
      const isDecided = binary !== undefined || text !== undefined
      if (!isDecided && !(await decide())) return undefined
      return binary ?? (text?.end() ? textType : undefined)
    },
  }
}

/** Follows a file that may be text: UTF-8 without NUL, whose first visible characters begin no tag, comment or declaration. */
function followText() {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  let isText = true
  let start = ''

  function see(chunk?: Buffer): boolean {
    try {
      const characters = utf8.decode(chunk, { stream: chunk !== undefined })
      if (characters.includes('\0')) isText = false
      // other invisible characters do not keep a browser from seeing the tag behind them
      if (start.length < 2) start = (start + characters.replaceAll(/[\s\p{Cc}\p{Cf}]/gu, '')).slice(0, 2)
    } catch {
      isText = false
    }
    if (/^<[a-z!?/%]/i.test(start)) isText = false
    return isText
  }
  return { see, end: () => see() }
}
