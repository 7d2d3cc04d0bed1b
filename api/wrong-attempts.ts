import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { tooManyRequests } from '../core/errors.ts'

/**
 * Makes a function that counts a wrong credential of a sender. It throws AppError `too_many_requests` when the sender has sent more than
 * `perMinute` within a minute. Right credentials are not counted, so they are always accepted.
 */
export function createWrongAttempts(perMinute: number, message: string): (sender: string) => Promise<void> {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: 60 })
  return async (sender) => {
    try {
      await limiter.consume(sender)
    } catch (limit) {
      if (!(limit instanceof RateLimiterRes)) throw limit
      throw tooManyRequests(message, Math.ceil(limit.msBeforeNext / 1000))
    }
  }
}
