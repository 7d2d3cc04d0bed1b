import { createHmac, timingSafeEqual } from 'node:crypto'
import { deriveKey } from './derive-key.ts'

/** Issues and reads the tokens of links to the delivery files of sites. */
export interface DeliveryTokens {
  /** 48 characters of base64url, the same for the same arguments. */
  issue(siteId: string, submissionId: string, until: Date): string
  /** When the link ends, in the past or in the future; undefined unless the token was issued for the site. */
  endOf(siteId: string, token: string): Date | undefined
}

const idBytes = 16
const endBytes = 4
const signatureBytes = 16
const tokenPattern = /^[A-Za-z0-9_-]{48}$/

/** A token is the id of the submission, the end of the link and a signature, so that nothing is stored for it. Another secret key gives other tokens. */
export function createDeliveryTokens(secretKey: Uint8Array): DeliveryTokens {
  const key = deriveKey(secretKey, 'plinth delivery links')
  const sign = (siteId: string, said: Buffer) =>
    createHmac('sha256', key).update(`${siteId}:`).update(said).digest().subarray(0, signatureBytes)
  return {
    issue(siteId, submissionId, until) {
      const end = Buffer.alloc(endBytes)
      end.writeUInt32BE(Math.floor(until.getTime() / 1000))
      const said = Buffer.concat([Buffer.from(submissionId.replaceAll('-', ''), 'hex'), end])
      return Buffer.concat([said, sign(siteId, said)]).toString('base64url')
    },
    endOf(siteId, token) {
      if (!tokenPattern.test(token)) return undefined
      const bytes = Buffer.from(token, 'base64url')
      const said = bytes.subarray(0, idBytes + endBytes)
      const isIssued = timingSafeEqual(bytes.subarray(idBytes + endBytes), sign(siteId, said))
      return isIssued ? new Date(said.readUInt32BE(idBytes) * 1000) : undefined
    },
  }
}
