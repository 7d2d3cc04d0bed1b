import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SelfSigned {
  /** PEM */
  readonly certificate: string
  /** PEM */
  readonly key: string
}

/** A certificate that is its own authority. @param days -1: it has expired */
export function selfSigned(name: string, { days = 2 }: { readonly days?: number } = {}): SelfSigned {
  const dir = mkdtempSync(join(tmpdir(), 'plinth-certificate-'))
  try {
    const run = (...args: string[]) => execFileSync('openssl', args, { cwd: dir, stdio: ['ignore', 'ignore', 'ignore'] })
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key.pem']
    run(
      'req',
      '-new',
      ...key,
      '-out',
      'request.pem',
      '-subj',
      `/CN=${name.slice(0, 60)}`,
      '-addext',
      `subjectAltName=DNS:${name}`,
    )
    const sign = ['-signkey', 'key.pem', '-days', `${days}`, '-copy_extensions', 'copy']
    run('x509', '-req', '-in', 'request.pem', ...sign, '-out', 'certificate.pem')
    return {
      certificate: readFileSync(join(dir, 'certificate.pem'), 'utf8'),
      key: readFileSync(join(dir, 'key.pem'), 'utf8'),
    }
  } finally {
    rmSync(dir, { recursive: true })
  }
}
