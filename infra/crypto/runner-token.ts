import { hkdfSync } from 'node:crypto'

/** PLINTH_RUNNER_TOKEN, with which runners read the variables of their builds, unless the operator has set another. */
export const deriveRunnerToken = (secretKey: Uint8Array): string =>
  Buffer.from(hkdfSync('sha256', secretKey, '', 'plinth runner token', 32)).toString('base64url')
