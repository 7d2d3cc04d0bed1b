import { openAuthorities } from '../../infra/acme/authorities.ts'
import { AcmeError } from '../../infra/acme/errors.ts'
import { openPreflightCheck } from '../../infra/acme/preflight.ts'
import type { Config } from '../../infra/config.ts'

/** How long the names of an authority are remembered; they hardly ever change. */
const issuersPeriodMs = 3_600_000

export interface LookUpParts {
  /** Names of the certificate authority in CAA records; nothing is refused while they are unknown. */
  readonly findIssuers?: (signal: AbortSignal) => Promise<readonly string[]>
  /** Requests our own token at the name, on port 80. */
  readonly checkReach?: (name: string, signal: AbortSignal) => Promise<{ readonly ok: boolean; readonly message: string }>
}

/**
 * Opens the checks besides name servers, as far as the settings allow them.
 * @throws ConfigError when a name server in the settings is no IP address
 */
export function openLookUpParts(config: Config): LookUpParts {
  if (config.secretKey === undefined) return {}
  const checkReach = openPreflightCheck(config, config.secretKey)
  return config.acme.directory === undefined ? { checkReach } : { checkReach, findIssuers: openIssuers(config) }
}

/** Remembers the names of the authority; one that does not answer is asked again the next time. */
function openIssuers(config: Config): NonNullable<LookUpParts['findIssuers']> {
  const authorities = openAuthorities(config)
  let known: { readonly issuers: readonly string[]; readonly untilMs: number } | undefined
  return async (signal) => {
    if (known && performance.now() < known.untilMs) return known.issuers
    try {
      const issuers = await (await authorities.get('real')).caaIdentities(signal)
      known = { issuers, untilMs: performance.now() + issuersPeriodMs }
      return issuers
    } catch (error) {
      if (error instanceof AcmeError || signal.aborted) return []
      throw error
    }
  }
}
