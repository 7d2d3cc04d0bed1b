import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { tooManyRequests } from '../../core/errors.ts'
import { bearerToken, sameSecret, unauthorized } from '../authenticate.ts'

const wrongPerMinute = 10

/** Admits the operator. The right token is always accepted; after ten wrong ones a minute, an address gets 429 for further wrong ones. */
export function createOperatorGuard(token: string) {
  const wrong = new RateLimiterMemory({ points: wrongPerMinute, duration: 60 })
  const isOperator = (header: string | undefined) => {
    const given = bearerToken(header)
    return given !== undefined && sameSecret(given, token)
  }
  return {
    isOperator,
    /** @throws AppError `unauthorized`, `too_many_requests` */
    async admit(header: string | undefined, address: string): Promise<void> {
      if (isOperator(header)) return
      if (header === undefined) throw unauthorized('send the operator token in the header Authorization: Bearer <token>')
      try {
        await wrong.consume(address)
      } catch (limit) {
        if (!(limit instanceof RateLimiterRes)) throw limit
        throw tooManyRequests('too many wrong operator tokens; wait a minute', Math.ceil(limit.msBeforeNext / 1000))
      }
      throw unauthorized('this is not the operator token')
    },
  }
}
export type OperatorGuard = ReturnType<typeof createOperatorGuard>
