import { proofPeriodMs } from '../../core/visits.ts'
import type { VisitPlace, Visits } from '../../infra/crypto/visits.ts'
import type { Services } from '../services.ts'

/** Issues and reads the cookies of visitors who have confirmed an address, but are not let in yet. */
export interface WithProofs {
  readonly proofs: Visits
}

/** The proof of an address: its subject is the confirmed code. */
export const issueProof = ({ proofs }: WithProofs, place: VisitPlace, challenge: string, now: Date): string =>
  proofs.issue(place, { subject: challenge, generation: 0, consent: 0, until: new Date(now.getTime() + proofPeriodMs) })

/**
 * The address that a visitor has confirmed at this place within the last two hours; undefined without a proof.
 * @param cookies the values of the cookies that may be proofs
 */
export async function findProvedAddress(
  { db, clock, proofs }: Services & WithProofs,
  place: VisitPlace,
  cookies: readonly string[],
): Promise<string | undefined> {
  const now = clock()
  for (const text of cookies) {
    const proof = proofs.read(place, text)
    if (!proof || proof.until <= now) continue
    const code = await db
      .selectFrom('access_codes')
      .select('email')
      .where('id', '=', proof.subject)
      .where('site_id', '=', place.site_id)
      .where('confirmed_at', '>', new Date(now.getTime() - proofPeriodMs))
      .executeTakeFirst()
    if (code) return code.email
  }
  return undefined
}
