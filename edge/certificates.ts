import type { RequestListener } from 'node:http'
import { LRUCache } from 'lru-cache'
import { parseHost, wildcardOf } from '../core/hosts.ts'
import { certificatePaths } from '../infra/caddy/certificate-getter.ts'
import { open, openKeyring } from '../infra/crypto/seal.ts'
import type { Logger } from '../infra/log.ts'
import type { CertificateSink, StoredCertificate } from '../services/feeds/certificates.ts'
import { openSnapshots } from './snapshot.ts'

export interface CertificateTable extends CertificateSink, AsyncDisposable {
  /** Finds the certificate of the host itself, or else that of a wildcard. */
  find(host: string): StoredCertificate | undefined
}

export interface CertificateTableOptions {
  readonly snapshotDir: string
  readonly log: Logger
  readonly snapshotDelayMs?: number
}

/**
 * Every certificate, in memory, with its key sealed. It begins with the last snapshot and accepts only higher versions, or any in place of one of
 * another incarnation of the database.
 */
export async function openCertificateTable({
  snapshotDir,
  log,
  snapshotDelayMs,
}: CertificateTableOptions): Promise<CertificateTable> {
  const snapshots = await openSnapshots<StoredCertificate>({
    dir: snapshotDir,
    name: 'certificates',
    complete: (certificate) => certificate,
    log,
    delayMs: snapshotDelayMs,
  })
  const byId = new Map<string, StoredCertificate>()
  const byName = new Map<string, StoredCertificate>()
  let incarnation: string | undefined

  function forget(id: string): boolean {
    const known = byId.get(id)
    if (!known) return false
    byId.delete(id)
    // the name may belong to a new row by now
    if (byName.get(known.name)?.id === id) byName.delete(known.name)
    return true
  }

  function take(certificate: StoredCertificate): boolean {
    if ((byId.get(certificate.id)?.version ?? 0) >= certificate.version) return false
    forget(certificate.id)
    byId.set(certificate.id, certificate)
    byName.set(certificate.name, certificate)
    return true
  }

  const changed = () => snapshots.changed(() => ({ incarnation, entries: [...byId.values()] }))

  const loaded = await snapshots.load()
  incarnation = loaded.incarnation
  for (const certificate of loaded.entries) take(certificate)
  log.info({ certificates: byId.size }, 'certificates read from the snapshot')

  return {
    find: (host) => byName.get(host) ?? byName.get(wildcardOf(host)),
    versionOf: (id) => byId.get(id)?.version,

    useIncarnation(given) {
      if (given === incarnation) return
      incarnation = given
      for (const [id, certificate] of byId) byId.set(id, { ...certificate, version: 0 })
      changed()
    },

    apply(certificates, goneIds) {
      const gone = goneIds.filter(forget)
      const taken = certificates.filter(take)
      for (const { name, version } of taken) log.info({ name, version }, 'certificate changed')
      if (gone.length > 0 || taken.length > 0) changed()
    },

    keepOnly(ids) {
      const gone = [...byId.keys()].filter((id) => !ids.has(id)).filter(forget)
      if (gone.length === 0) return
      log.info({ certificates: byId.size, removed: gone.length }, 'certificates removed')
      changed()
    },

    [Symbol.asyncDispose]: () => snapshots[Symbol.asyncDispose](),
  }
}

export interface CertificateGetterOptions {
  readonly certificates: Pick<CertificateTable, 'find'>
  /** Whether the host is served now. */
  readonly isRoutable: (host: string) => boolean
  /** Whether Caddy may issue a certificate of its own authority for a host that has none. */
  readonly isPermitted: (host: string) => boolean
  /** PLINTH_SECRET_KEY */
  readonly secretKey: Uint8Array
  readonly log: Logger
}

/** How many opened keys are remembered, for busy hosts; opening one takes a few microseconds. */
const maxOpened = 500

/**
 * Returns the certificate of a handshake to Caddy: chain and key, or 204 for a name that has none or is not served now. An expired one is
 * better than none. Caddy then asks for the permission to issue one of its own authority; nothing else is ever ordered by it.
 */
export function createCertificateGetter({
  certificates,
  isRoutable,
  isPermitted,
  secretKey,
  log,
}: CertificateGetterOptions): RequestListener {
  const paths = certificatePaths(secretKey)
  const keyring = openKeyring(secretKey)
  // by what is stored: a version says which certificate it is only within one incarnation of the database
  const opened = new LRUCache<StoredCertificate, Buffer>({ max: maxOpened })

  function bundleOf(stored: StoredCertificate): Buffer {
    const known = opened.get(stored)
    if (known) return known
    const { id, certificate, key_sealed } = stored
    const key = open(keyring, key_sealed, { table: 'certificates', id, column: 'key_sealed' })
    const bundle = Buffer.from(`${certificate.trimEnd()}\n${key.trimEnd()}\n`)
    opened.set(stored, bundle)
    return bundle
  }

  function find(url: string): Buffer | undefined {
    const host = hostIn(url, 'server_name')
    const certificate = host === undefined ? undefined : certificates.find(host)
    if (!certificate || host === undefined || !isRoutable(host)) return undefined
    try {
      return bundleOf(certificate)
    } catch (error) {
      log.error({ err: error, name: certificate.name }, 'key of a certificate cannot be opened')
      return undefined
    }
  }

  return ({ url = '' }, res) => {
    const path = url.split('?', 1)[0]
    const bundle = path === paths.certificate ? find(url) : undefined
    if (path === paths.permission) res.writeHead(isPermitted(hostIn(url, 'domain') ?? '') ? 200 : 403).end()
    else if (path !== paths.certificate) res.writeHead(404).end()
    else if (!bundle) res.writeHead(204).end()
    else res.writeHead(200, { 'Content-Type': 'application/pem-certificate-chain', 'Content-Length': bundle.length }).end(bundle)
  }
}

const hostIn = (url: string, parameter: string) =>
  parseHost([new URLSearchParams(url.slice(url.indexOf('?') + 1)).get(parameter) ?? ''])
