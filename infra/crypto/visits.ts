import { createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from './derive-key.ts'

/** Where a visit is valid: one host of one site, until its lock changes. */
export interface VisitPlace {
  readonly site_id: string
  /** In lower case, without a port. */
  readonly host: string
  /** The epoch of the lock. */
  readonly epoch: string
}

/** Who visits a closed site. */
export interface Visit {
  /** A UUID: of the entry that let the visitor in, or {@link anybody}. */
  readonly subject: string
  /** Of the subject, when it entered. */
  readonly generation: number
  /** The version of the documents to which the visitor has consented; 0 before any. */
  readonly consent: number
  readonly until: Date
}

/** The subject of visitors whom nothing distinguishes: everybody with the password. */
export const anybody = '00000000-0000-0000-0000-000000000000'

/** Issues and reads the cookies of visits (addendum E36). */
export interface Visits {
  /** 59 characters of base64url. */
  issue(place: VisitPlace, visit: Visit): string
  /** The visit, which may be over; undefined unless the text was issued for this place. */
  read(place: VisitPlace, text: string): Visit | undefined
}

const subjectBytes = 16
const saidBytes = subjectBytes + 4 + 4 + 4
const signatureBytes = 16
const textPattern = /^[A-Za-z0-9_-]{59}$/

/**
 * @param secretKey PLINTH_SECRET_KEY
 * @param purpose `proof`: of an address that a visitor has confirmed, whose subject is the code. Neither is read as the other.
 */
export function createVisits(secretKey: Uint8Array, purpose: 'visit' | 'proof' = 'visit'): Visits {
  const key = deriveKey(secretKey, purpose)
  const sign = ({ site_id, host, epoch }: VisitPlace, said: Buffer) =>
    createHmac('sha256', key).update(`${site_id}:${epoch}:${host}:`).update(said).digest().subarray(0, signatureBytes)
  return {
    issue(place, { subject, generation, consent, until }) {
      const said = Buffer.alloc(saidBytes)
      said.write(subject.replaceAll('-', ''), 'hex')
      said.writeUInt32BE(generation, subjectBytes)
      said.writeUInt32BE(consent, subjectBytes + 4)
      said.writeUInt32BE(Math.floor(until.getTime() / 1000), subjectBytes + 8)
      return Buffer.concat([said, sign(place, said)]).toString('base64url')
    },
    read(place, text) {
      if (!textPattern.test(text)) return undefined
      const bytes = Buffer.from(text, 'base64url')
      const said = bytes.subarray(0, saidBytes)
      if (!timingSafeEqual(bytes.subarray(saidBytes), sign(place, said))) return undefined
      const hex = said.toString('hex', 0, subjectBytes)
      const subject = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
      return {
        subject,
        generation: said.readUInt32BE(subjectBytes),
        consent: said.readUInt32BE(subjectBytes + 4),
        until: new Date(said.readUInt32BE(subjectBytes + 8) * 1000),
      }
    },
  }
}
