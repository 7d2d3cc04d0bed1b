import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { z } from 'zod'

// What a setting may look like. Each is a codec, so that a value can be written back into the environment of a child process.

const MiB = 1024 * 1024

export const port = z.coerce.number().int().min(1).max(65_535)

/** At least one, and few enough that a slip of the finger does not start thousands of builds. */
export const buildCount = z.coerce.number().int().min(1).max(256)

/** A secret that goes into a header: printable ASCII without blanks. */
export const visibleText = z.string().regex(/^[\x21-\x7e]{1,500}$/, 'must have at most 500 characters, none of them a blank')

/** The origin of an http or https address: without a path, and without a trailing slash. */
export const origin = z.codec(z.url({ protocol: /^https?$/, error: 'must be an http or https address' }), z.string(), {
  decode: (text) => new URL(text).origin,
  encode: (text) => text,
})

export const httpsUrl = z.string().regex(/^https:\/\/[^/]/, 'must start with https://')

/** It becomes a part of an address or a header. */
export const botToken = z.string().regex(/^[\w:.~+=-]{8,500}$/, 'must be the token of a bot, as its messenger shows it')

export const domainName = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'must be a domain name')

const commaText = (items: readonly string[]) => items.join(',')
const commaItems = (text: string) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')

export const commaList = z.codec(z.string(), z.array(z.string()), { decode: commaItems, encode: commaText })

/** A comma list of folders, as absolute paths. */
export const folders = z.codec(z.string(), z.array(z.string()), {
  decode: (text) => commaItems(text).map((folder) => resolve(folder)),
  encode: commaText,
})

/** An absolute path. */
export const path = z.codec(z.string(), z.string(), { decode: (text) => resolve(text), encode: (text) => text })

/** The absolute path of a file that can be read now. */
export const readableFile = z.codec(z.string(), z.string(), {
  decode(file, context) {
    try {
      readFileSync(file)
      return resolve(file)
    } catch (error) {
      const message = `${file} cannot be read (${(error as NodeJS.ErrnoException).code})`
      context.issues.push({ code: 'custom', message, input: file })
      return z.NEVER
    }
  },
  encode: (file) => file,
})

const durationUnits = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Milliseconds. */
export const duration = z.codec(
  z.string().regex(/^\d{1,9}(ms|s|m|h|d)$/, 'must be a duration such as 500ms, 10s, 5m, 24h or 7d'),
  z.number(),
  {
    decode(text) {
      const unit = text.replace(/^\d+/, '') as keyof typeof durationUnits
      return Number.parseInt(text, 10) * durationUnits[unit]
    },
    encode: (ms) => `${ms}ms`,
  },
)

const byteUnits = { '': 1, k: 1024, m: MiB, g: 1024 * MiB } as const

/** Bytes. */
export const byteSize = z.codec(
  z.string().regex(/^\d{1,11}[kmg]?$/i, 'must be a number of bytes, with k, m or g after it for KiB, MiB or GiB'),
  z.number(),
  {
    decode(text) {
      const unit = text.replace(/^\d+/, '').toLowerCase() as keyof typeof byteUnits
      return Number.parseInt(text, 10) * byteUnits[unit]
    },
    encode: String,
  },
)

export const trueOrFalse = z.codec(z.enum(['true', 'false'], 'must be true or false'), z.boolean(), {
  decode: (text) => text === 'true',
  encode: (value) => (value ? 'true' : 'false'),
})

export const secretKeyForm = 'must be 32 bytes in base64, as `openssl rand -base64 32` makes them'

export const secretKey = z.codec(
  z.base64(secretKeyForm),
  z.custom<Uint8Array>((bytes) => bytes instanceof Uint8Array && bytes.length === 32, secretKeyForm),
  {
    decode: (text): Uint8Array => Buffer.from(text, 'base64'),
    encode: (bytes) => Buffer.from(bytes).toString('base64'),
  },
)
