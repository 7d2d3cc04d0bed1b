import { type Config, required } from '../config.ts'
import { type AcmeAccount, acmeAccount } from './account.ts'
import type { Acme } from './acme.ts'

/** The authorities in the settings, all with the same account. */
export interface Authorities {
  readonly account: AcmeAccount
  /** @throws ConfigError when none is set; Error when the file of trusted authorities cannot be read */
  get(which: 'real' | 'rehearsal'): Promise<Acme>
}

/**
 * @param patienceMs how long one order may take
 * @throws ConfigError without a secret key
 */
export function openAuthorities({ acme, secretKey }: Pick<Config, 'acme' | 'secretKey'>, patienceMs?: number): Authorities {
  const account = acmeAccount(required(secretKey, 'PLINTH_SECRET_KEY'))
  const opened = new Map<string, Acme>()
  return {
    account,
    async get(which) {
      const [directoryUrl, setting] =
        which === 'real'
          ? ([acme.directory, 'PLINTH_ACME_DIRECTORY'] as const)
          : ([acme.stagingDirectory, 'PLINTH_ACME_STAGING_DIRECTORY'] as const)
      const url = required(directoryUrl, setting)
      const known = opened.get(url)
      if (known) return known
      // its libraries take 10 MiB, which a process without orders does not need
      const { openAcme } = await import('./acme.ts')
      const { caFile, email } = acme
      const made = await openAcme({
        directoryUrl: url,
        caFile,
        email,
        accountKey: account.key,
        ...(patienceMs !== undefined && { patienceMs }),
      })
      opened.set(url, made)
      return made
    },
  }
}
