import { bearerToken, createWrongAttempts, sameSecret, unauthorized } from '../authenticate.ts'

const wrongPerMinute = 10

/** Admits the operator. The right token is always accepted; after ten wrong ones a minute, an address gets 429 for further wrong ones. */
export function createOperatorGuard(token: string) {
  const countWrong = createWrongAttempts(wrongPerMinute, 'too many wrong operator tokens; wait a minute')
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
      countWrong(address)
      throw unauthorized('this is not the operator token')
    },
  }
}
export type OperatorGuard = ReturnType<typeof createOperatorGuard>
