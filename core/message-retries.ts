/** A start or signal that Temporal has refused this many times is dead: it is not sent again until the operator retries it. */
export const maxMessageRefusals = 8
/** Dead starts and signals are kept this long. */
export const deadMessagePeriodMs = 30 * 24 * 3_600_000

const firstPauseMs = 1000
/** A search attribute that the operator registers within minutes costs no message its life. */
const maxPauseMs = 120_000

/**
 * The pause before a start or signal is sent again, varied by half so that messages that failed together are not sent together.
 * @param refusals how often Temporal has refused the message itself; 0 while Temporal is away
 * @param random from 0 to 1
 */
export const messagePauseMs = (refusals: number, random: number): number =>
  Math.min(firstPauseMs * 2 ** Math.max(refusals - 1, 0), maxPauseMs) * (0.5 + random)
