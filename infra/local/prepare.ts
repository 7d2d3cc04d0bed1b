import { join } from 'node:path'
import { type Config, parseSecretKey } from '../config.ts'
import { deriveRunnerToken } from '../crypto/runner-token.ts'
import { trimLogs } from './child.ts'
import { claimDataDir } from './data-dir.ts'
import { claimReachableFolder } from './place.ts'
import { choosePorts, type Ports, usableAddresses } from './ports.ts'
import { openProcessRecords, type ProcessRecords } from './records.ts'
import { openSecret } from './secrets.ts'
import { openSocketDir } from './socket-dir.ts'

const trimEveryMs = 60_000

/** What a start needs before its first process. */
export interface Prepared {
  /** With the addresses, secrets and ports that the settings leave open. */
  readonly config: Config & { readonly operatorToken: string }
  readonly ports: Ports
  /** The folder for what other system users must reach. */
  readonly place: string
  readonly logDir: string
  readonly records: ProcessRecords
  /** Undefined when the operator gave the token. */
  readonly operatorTokenFile: string | undefined
}

/**
 * Claims the data directory, ends what a killed start has left running, chooses ports and opens the secrets.
 * @param resources gets what has to be given back at the end
 * @throws ConfigError for what the operator has to correct
 */
export async function prepareStart(
  settings: Config,
  resources: AsyncDisposableStack,
  report: (line: string) => void,
): Promise<Prepared> {
  const { dataDir } = settings
  const claimed = resources.use(await claimDataDir(dataDir))
  resources.use(await openSocketDir(settings.sockets.dir))
  const listen = await usableAddresses(settings.http.listen)
  const place = await claimReachableFolder(dataDir, claimed.id, report)
  const logDir = join(dataDir, 'logs')
  resources.use(keepLogsSmall(logDir, report))
  const records = await openProcessRecords(join(dataDir, 'run'))
  const leftovers = await records.endLeftovers()
  if (leftovers.length > 0) report(`ended what a killed start had left running: ${leftovers.join(', ')}`)
  const http = { ...settings.http, listen }
  const ports = await choosePorts({ ...settings, http }, report)
  const token = await openOperatorToken(settings)
  const secretKey = await openSecretKey(settings)
  const runnerToken = settings.runnerToken ?? deriveRunnerToken(secretKey)
  const acme = { ...settings.acme, certificatesPort: ports.certificates }
  const config = { ...settings, http, operatorToken: token.value, secretKey, runnerToken, acme }
  return { config, ports, place, logDir, records, operatorTokenFile: token.file }
}

function keepLogsSmall(logDir: string, report: (line: string) => void): Disposable {
  const trim = () => trimLogs(logDir).catch((error: Error) => report(`the logs were not trimmed: ${error.message}`))
  const trimming = setInterval(trim, trimEveryMs)
  return { [Symbol.dispose]: () => clearInterval(trimming) }
}

/** The operator's token, or the one that the first start generated. */
async function openOperatorToken({ operatorToken, dataDir }: Config): Promise<{ value: string; file: string | undefined }> {
  if (operatorToken !== undefined) return { value: operatorToken, file: undefined }
  const file = join(dataDir, 'operator-token')
  return { value: await openSecret(file, 'base64url'), file }
}

async function openSecretKey({ secretKey, dataDir }: Config): Promise<Uint8Array> {
  const file = join(dataDir, 'secret-key')
  return secretKey ?? parseSecretKey(await openSecret(file, 'base64'), file)
}
