import { activityInfo } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { counted } from '../../core/amounts.ts'
import { afterGivingUpMs, isEnding, renewalAt, unreachablePauseMs } from '../../core/certificates.ts'
import type { IssuedCertificate } from '../../infra/acme/acme.ts'
import { type Authorities, openAuthorities } from '../../infra/acme/authorities.ts'
import { type Challenges, createChallenges } from '../../infra/acme/challenges.ts'
import { AcmeError } from '../../infra/acme/errors.ts'
import { createPreflightCheck } from '../../infra/acme/preflight.ts'
import { seal } from '../../infra/crypto/seal.ts'
import { openResolver } from '../../infra/dns/resolver.ts'
import { dnsServers } from '../../infra/dns/servers.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import {
  type CertificateRow,
  endOrder,
  findOrder,
  type OrderRun,
  setOrderError,
  storeCertificate,
} from '../../services/certificates/certificates.ts'
import { deleteDnsChallenge, insertDnsChallenge } from '../../services/certificates/dns-challenges.ts'
import { startDueOrders } from '../../services/certificates/due-orders.ts'
import { giveUpOrder, postponeOrder } from '../../services/certificates/failures.ts'
import type { Services } from '../../services/services.ts'
import type { CertificateActivities, OrderResult, OrderStep } from '../contract/certificates.ts'

export interface CertificateActivityDeps extends Services {
  /** How long the authority may take for one order. */
  readonly orderPatienceMs?: number | undefined
}

/** The pause after a rate limit, in units of the shortest pause, when the authority does not name one. */
const rateLimitPauses = 60

/** The steps of an order. The row decides, and the key of a new certificate leaves its activity only sealed. */
export function createCertificateActivities(deps: CertificateActivityDeps): CertificateActivities {
  const { config, log, clock } = deps
  const authorities = openAuthorities(config, deps.orderPatienceMs)
  const challenges = openChallenges(deps, authorities.account.thumbprint)

  return {
    checkOrder: (step) =>
      withHeartbeat(async (signal) => {
        const row = await findOpenOrder(deps, step)
        if (!row) return { state: 'stale' }
        const { tries } = row
        const can_rehearse = config.acme.stagingDirectory !== undefined
        const { ok, message } = await challenges.check(row.name, await listIssuers(authorities, signal), signal)
        return { state: ok ? 'passed' : 'failed', message, tries, can_rehearse }
      }),

    placeOrder: ({ rehearsal, ...step }) =>
      withHeartbeat(async (signal) => {
        const row = await findOpenOrder(deps, step)
        if (!row) return { state: 'stale' }
        if (row.issued_by === step.order_id) return { state: 'issued', not_after: row.not_after?.toISOString() ?? '' }
        const { name } = row
        try {
          const authority = await authorities.get(rehearsal ? 'rehearsal' : 'real')
          const issued = await authority.order({ names: [name], challenge: challenges.challengeOf(name, signal), signal })
          return rehearsal ? { state: 'rehearsed' } : await storeIssued(deps, row, runOf(step), issued)
        } catch (error) {
          return await resultOfFailure(deps, error, row, step)
        }
      }),

    async postponeOrder({ error, tries, next_try_at, ...step }) {
      return await postponeOrder(deps, step, { error, tries, next_try_at: new Date(next_try_at) })
    },

    async giveUpOrder({ error, ...step }) {
      await giveUpOrder(deps, step, { renew_at: new Date(clock().getTime() + afterGivingUpMs), error })
      log.error({ ...runOf(step), error }, 'certificate order given up')
    },

    async startDueOrders() {
      const begun = await startDueOrders(deps, clock())
      return begun === 0 ? 'nothing is due, or enough is under way' : `began ${counted(begun, 'order')}`
    },
  }
}

/** Undefined, with the order ended, when nobody may order for the name now; another order begins when somebody may. */
async function findOpenOrder({ db, clock }: CertificateActivityDeps, step: OrderStep): Promise<CertificateRow | undefined> {
  const row = await findOrder(db, step)
  if (!row) await endOrder(db, step, { renew_at: clock(), error: null })
  return row
}

/** The names that CAA records use for the authority; none while it cannot be asked, as the order itself shows whether it works. */
async function listIssuers(authorities: Authorities, signal: AbortSignal): Promise<readonly string[]> {
  try {
    return await (await authorities.get('real')).caaIdentities(signal)
  } catch (error) {
    if (error instanceof AcmeError) return []
    throw error
  }
}

async function storeIssued(
  deps: CertificateActivityDeps,
  row: CertificateRow,
  run: OrderRun,
  { certificate, key, notBefore, notAfter }: IssuedCertificate,
): Promise<OrderResult> {
  const stored = await storeCertificate(deps, run, {
    certificate,
    key_sealed: seal(deps.keyring, key, { table: 'certificates', id: row.id, column: 'key_sealed' }),
    not_before: notBefore,
    not_after: notAfter,
    renew_at: renewalAt(notBefore, notAfter, Math.random()),
  })
  if (!stored) return { state: 'stale' }
  deps.log.info({ ...run, name: row.name, not_after: notAfter }, 'certificate issued')
  return { state: 'issued', not_after: notAfter.toISOString() }
}

/** @throws a retryable failure for an authority that does not work or wants us to wait */
async function resultOfFailure(
  deps: CertificateActivityDeps,
  error: unknown,
  row: CertificateRow,
  step: OrderStep,
): Promise<OrderResult> {
  if (!(error instanceof AcmeError)) throw error
  const { kind, message, retryAfterMs } = error
  logFailure(deps, row, step, message)
  if (kind === 'refused' || kind === 'invalid') return { state: 'refused', error: message }
  const usual =
    kind === 'rate_limited'
      ? rateLimitPauses * step.retry_pause_ms
      : unreachablePauseMs(activityInfo().attempt, step.retry_pause_ms)
  const pauseMs = kind === 'rate_limited' ? (retryAfterMs ?? usual) : Math.max(retryAfterMs ?? 0, usual)
  await setOrderError(deps.db, step, { error: message, next_try_at: new Date(deps.clock().getTime() + pauseMs) })
  throw ApplicationFailure.create({ message, type: kind, nextRetryDelay: Math.ceil(pauseMs) })
}

function logFailure({ log, clock }: CertificateActivityDeps, row: CertificateRow, step: OrderStep, error: string): void {
  const { name, not_after } = row
  const level = isEnding(not_after, clock()) ? 'error' : 'warn'
  log[level]({ ...runOf(step), name, not_after, error }, 'certificate not issued')
}

const runOf = ({ certificate_id, order_id }: OrderStep): OrderRun => ({ certificate_id, order_id })

function openChallenges({ db, config, clock }: CertificateActivityDeps, thumbprint: string): Challenges {
  const { dns, http, acme } = config
  const resolver = openResolver({ servers: dnsServers(dns.servers) })
  return createChallenges({
    resolver,
    preflight: createPreflightCheck({ resolver, servingIps: dns.servingIps, httpPort: http.port, thumbprint }),
    records: {
      insert: (name, value) => insertDnsChallenge(db, name, value, clock()),
      remove: (name, value) => deleteDnsChallenge(db, name, value),
    },
    zone: acme.dns?.zone,
  })
}
