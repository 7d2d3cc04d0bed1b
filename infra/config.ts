import { createHash } from 'node:crypto'
import { availableParallelism, homedir, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { defaultPlans } from '../core/plans.ts'
import { ConfigError } from './config/error.ts'
import { loadPlans } from './config/plans-file.ts'
import { secretKeyForm, secretKey as secretKeySchema } from './config/schemas.ts'
import { type Environment, listSettings, readSettings, type SettingValues } from './config/setting.ts'
import { settings } from './config/settings.ts'

export { ConfigError }

const GiB = 1024 ** 3

/** Variables that tell npm where its configuration and the registry are. */
const npmSetting = /^(npm_execpath|npm_config_(registry|cafile|userconfig|globalconfig)|(https?|no)_proxy)$/i

const inheritedNames = ['PATH', 'HOME', 'TMPDIR', 'TZ', 'NODE_EXTRA_CA_CERTS'] as const

type Given = SettingValues<typeof settings>

/** Every setting, validated, with the rules between them applied. Paths are absolute, sizes in bytes, times in milliseconds. */
export type Config = ReturnType<typeof loadConfig>

/**
 * Reads the settings. The defaults are the embedded mode on one machine.
 * @throws ConfigError naming the variable and what is wrong with it
 */
export function loadConfig(env: Environment = process.env) {
  const given = readSettings(settings, env)
  const { dataDir, http, storage, acme, mail, plansFile } = given
  const urls = completeUrls(given)
  const { hostname } = new URL(urls.base)
  return {
    ...given,
    /** Variables that look like settings and are none: a typing error, or of another version. They are ignored. */
    unknownSettings: unknownSettings(env),
    cacheDir: given.cacheDir ?? join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'plinth'),
    /** The part of the launcher's own environment that every process gets. */
    inherited: Object.fromEntries(inheritedNames.flatMap((name) => (env[name] ? [[name, env[name]]] : []))) as Environment,
    /** The npm of this machine, program first. */
    npm: (env.npm_execpath ? [process.execPath, env.npm_execpath] : ['npm']) as [string, ...string[]],
    /** The variables that npm reads, for a process that gets no other part of the environment. */
    npmEnvironment: Object.fromEntries(Object.entries(env).filter(([name]) => npmSetting.test(name))) as Environment,
    http: { ...http, listen: http.listen ?? (hostname === 'localhost' ? ['127.0.0.1', '[::1]'] : ['']) },
    urls,
    sockets: socketPaths(dataDir),
    storage: { ...storage, url: storage.url ?? pathToFileURL(join(dataDir, 'cas')).href },
    acme: { ...acme, dns: completeAcmeDns(acme.dns) },
    mail: { ...mail, from: mail.from ?? `Plinth <noreply@${hostname}>` },
    payments: completePayments(given.payments),
    build: completeBuild(given),
    plans: plansFile === undefined ? defaultPlans : loadPlans(plansFile),
  }
}

function unknownSettings(env: Environment): string[] {
  const known = new Set(listSettings(settings).map(({ setting }) => setting.name))
  return Object.keys(env).filter((name) => name.startsWith('PLINTH_') && env[name] !== '' && !known.has(name))
}

/** @throws ConfigError when a site could take the name of one of our own hosts */
function completeUrls({ urls, http }: Given) {
  const { platformDomain } = urls
  const base = urls.base ?? `http://localhost:${http.port}`
  const preview = urls.preview ?? withHost(base, `preview.${new URL(base).hostname}`)
  for (const [name, address] of [
    ['PLINTH_BASE_URL', base],
    ['PLINTH_PREVIEW_URL', preview],
  ] as const) {
    const host = new URL(address).hostname
    if (host === platformDomain || host.endsWith(`.${platformDomain}`)) {
      throw new ConfigError(
        `${name} has the host ${host}, which lies in the sites' domain ${platformDomain}: a site could take its name; choose another`,
      )
    }
  }
  return { base, mcp: urls.mcp ?? base, preview, platformDomain }
}

function completeBuild({ build, dataDir }: Given) {
  const slots = build.slots ?? availableParallelism()
  return {
    ...build,
    slots,
    perProject: build.perProject ?? Math.ceil(slots / 2),
    memoryBytes: build.memoryBytes ?? Math.min(4 * GiB, Math.floor(totalmem() / 2 / slots)),
    dir: build.dir ?? join(dataDir, 'builds'),
    toolchainDir: build.toolchainDir ?? join(dataDir, 'toolchains'),
  }
}

/** Unix sockets between Caddy and our processes. The folder is 0700 and its path short: longer ones than 108 bytes are cut silently. */
function socketPaths(dataDir: string) {
  const dir = join(tmpdir(), `plinth-${process.getuid?.() ?? 0}-${dataDirHash(dataDir)}`)
  return { dir, api: join(dir, 'api.sock'), edge: join(dir, 'edge.sock'), caddyAdmin: join(dir, 'caddy-admin.sock') }
}

/** @throws ConfigError when only one is set */
function completeAcmeDns({ listen, zone }: Given['acme']['dns']) {
  return bothOrNone({ PLINTH_ACME_DNS_LISTEN: listen, PLINTH_ACME_DNS_ZONE: zone }, 'HTTP-01 only', (listen, zone) => ({
    listen,
    zone,
  }))
}

/** The payment providers that the operator has configured. @throws ConfigError when half of one is set */
function completePayments({ test, yookassa, stripe }: Given['payments']) {
  const shop = { PLINTH_YOOKASSA_SHOP_ID: yookassa.shopId, PLINTH_YOOKASSA_SECRET_KEY: yookassa.secretKey }
  const account = { PLINTH_STRIPE_SECRET_KEY: stripe.secretKey, PLINTH_STRIPE_WEBHOOK_SECRET: stripe.webhookSecret }
  return {
    test,
    yookassa: bothOrNone(shop, 'no payments by YooKassa', (shopId, secretKey) => ({ shopId, secretKey, api: yookassa.api })),
    stripe: bothOrNone(account, 'no payments by Stripe', (secretKey, webhookSecret) => ({
      secretKey,
      webhookSecret,
      api: stripe.api,
    })),
  }
}

/** @throws ConfigError when only one of the two settings has a value */
function bothOrNone<Both>(
  given: Readonly<Record<string, string | undefined>>,
  otherwise: string,
  both: (first: string, second: string) => Both,
): Both | undefined {
  const [first, second] = Object.values(given)
  if (first !== undefined && second !== undefined) return both(first, second)
  if (first === undefined && second === undefined) return undefined
  throw new ConfigError(`${Object.keys(given).join(' and ')} belong together: set both, or none for ${otherwise}`)
}

/** Twelve hex digits that name a data directory in folders outside of it. */
export const dataDirHash = (dataDir: string) => createHash('sha256').update(dataDir).digest('hex').slice(0, 12)

/** The address of a site: scheme and port are those of the base address, never of a request. */
export const siteUrl = ({ urls }: Pick<Config, 'urls'>, subdomain: string): string =>
  withHost(urls.base, `${subdomain}.${urls.platformDomain}`)

/** The address that a preview link opens at. */
export const previewUrl = ({ urls }: Pick<Config, 'urls'>, token: string) => `${urls.preview}/${token}/`

/** The origin on which browsers see a preview. */
export const previewOrigin = ({ urls }: Pick<Config, 'urls'>, token: string) =>
  withHost(urls.preview, `${token}.${new URL(urls.preview).hostname}`)

/** The address of a deploy alone: the origin that browsers are redirected to from its preview link, too. */
export const permanentUrl = (config: Pick<Config, 'urls'>, token: string) => `${previewOrigin(config, token)}/`

/** @param origin whose scheme and port are kept */
function withHost(origin: string, hostname: string): string {
  const url = new URL(origin)
  url.hostname = hostname
  return url.origin
}

/** @throws ConfigError naming the file that the key was read from */
export function parseSecretKey(text: string, file: string): Uint8Array {
  const parsed = secretKeySchema.safeParse(text)
  if (!parsed.success) throw new ConfigError(`the secret key in ${file} ${secretKeyForm}`)
  return parsed.data
}

/**
 * A setting that a single process cannot do without, although `npm start` fills it in.
 * @throws ConfigError naming the variable
 */
export function required<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new ConfigError(`${name} is not set: this process needs it when it is started on its own`)
  return value
}
