import { domainAllows, isVerified } from '../../core/domain-state.ts'
import type { CertificateStep } from '../../workflows/contract/domains.ts'
import { withDomainOfRun } from '../domains/connect.ts'
import type { DomainRun } from '../domains/connecting.ts'
import { stateOf } from '../domains/domains.ts'
import type { Services } from '../services.ts'
import { beginOrder } from './certificates.ts'

/** Writes the order of the certificate of a verified domain, whose workflow starts that of the order. May be repeated. */
export async function beginCertificate(services: Services, run: DomainRun): Promise<CertificateStep> {
  const { config, clock } = services
  const step = await withDomainOfRun(services, run, async (tx, domain): Promise<CertificateStep> => {
    if (!isVerified(domain)) return { state: 'stale' }
    if (domain.trashed) return { state: 'waiting' }
    if (!domainAllows('order', stateOf(config, domain))) return { state: 'none' }
    const order = await beginOrder(tx, { domain_id: domain.id, name: domain.domain }, clock())
    const { project_id, site_id } = domain
    const retry_pause_ms = config.acme.retryPauseMs
    return { state: 'ordered', order: { ...order, name: domain.domain, retry_pause_ms }, owner: { project_id, site_id } }
  })
  return step ?? { state: 'stale' }
}
