import { deriveKey } from './derive-key.ts'

/** PLINTH_RUNNER_TOKEN, with which runners read the variables of their builds, unless the operator has set another. */
export const deriveRunnerToken = (secretKey: Uint8Array): string =>
  deriveKey(secretKey, 'plinth runner token').toString('base64url')
