import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism, homedir, tmpdir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { defaultPlans, type PlanName, type Plans, planNames } from '../core/plans.ts'

/** A setting that the operator has to mend; its message is printed without a stack. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

const MiB = 1024 * 1024
const GiB = 1024 * MiB

const port = z.coerce.number().int().min(1).max(65_535)
const url = z.url({ protocol: /^https?$/, error: 'must be an http or https address' }).transform((text) => new URL(text))
const commaList = z.string().transform((text) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
)

const durationUnits = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const duration = z
  .string()
  .regex(/^\d+(ms|s|m|h|d)$/, 'must be a duration such as 500ms, 10s, 5m, 24h or 7d')
  .transform((text) => {
    const unit = text.replace(/^\d+/, '') as keyof typeof durationUnits
    return Number.parseInt(text, 10) * durationUnits[unit]
  })

const byteUnits = { '': 1, k: 1024, m: MiB, g: GiB } as const
const byteSize = z
  .string()
  .regex(/^\d+[kmg]?$/i, 'must be a number of bytes, with k, m or g after it for KiB, MiB or GiB')
  .transform((text) => {
    const unit = text.replace(/^\d+/, '').toLowerCase() as keyof typeof byteUnits
    return Number.parseInt(text, 10) * byteUnits[unit]
  })

const hourMs = 3_600_000
const domainName = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'must be a domain name')
const httpsUrl = z.string().regex(/^https:\/\/[^/]/, 'must start with https://')

const secretKeyForm = 'must be 32 bytes in base64, as `openssl rand -base64 32` makes them'
const secretKey = z
  .base64(secretKeyForm)
  .transform((text): Uint8Array => Buffer.from(text, 'base64'))
  .refine((bytes) => bytes.length === 32, secretKeyForm)

/** Every variable, with what it means. Nothing else in the code reads the environment. */
const settings = z.object({
  PLINTH_DATA_DIR: z.string().default('.plinth'),
  PLINTH_CACHE_DIR: z.string().optional(),
  PLINTH_HTTP_PORT: port.default(8080),
  PLINTH_HTTPS_PORT: port.default(8443),
  PLINTH_LISTEN: commaList.optional(),
  PLINTH_TEMPORAL_PORT: port.optional(),
  PLINTH_TEMPORAL_UI_PORT: port.optional(),
  PLINTH_POSTGRES_PORT: port.optional(),
  PLINTH_TRUSTED_PROXIES: commaList.default([]),
  PLINTH_BASE_URL: url.optional(),
  PLINTH_MCP_URL: url.optional(),
  PLINTH_PLATFORM_DOMAIN: domainName.default('plinth.localhost'),
  PLINTH_PREVIEW_URL: url.optional(),
  PLINTH_DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
  PLINTH_TEMPORAL_ADDRESS: z.string().optional(),
  PLINTH_TEMPORAL_NAMESPACE: z.string().default('default'),
  PLINTH_TEMPORAL_UI_URL: url.optional(),
  PLINTH_STORAGE_URL: z
    .string()
    .regex(/^file:\/\/\//, 'must be a file:/// address')
    .optional(),
  PLINTH_STORAGE_COPIES: commaList.default([]),
  PLINTH_OPERATOR_TOKEN: z.string().min(16, 'must have at least 16 characters').optional(),
  PLINTH_SECRET_KEY: secretKey.optional(),
  PLINTH_TRASH_PERIOD: duration.default(24 * hourMs),
  PLINTH_SUBDOMAIN_SWITCH_DELAY: duration.default(24 * hourMs),
  PLINTH_SUBDOMAIN_CHANGE_INTERVAL: duration.default(7 * 24 * hourMs),
  PLINTH_DNS_CHECK_INTERVAL: duration.default(10_000),
  PLINTH_DNS_SERVERS: commaList.optional(),
  PLINTH_SERVING_IPS: commaList.default(['127.0.0.1']),
  PLINTH_ACME_DIRECTORY: httpsUrl.optional(),
  PLINTH_ACME_STAGING_DIRECTORY: httpsUrl.optional(),
  PLINTH_ACME_CA_FILE: z.string().optional(),
  PLINTH_ACME_EMAIL: z.email('must be a mail address').optional(),
  PLINTH_ACME_RETRY_PAUSE: duration.default(60_000),
  PLINTH_ACME_DNS_LISTEN: z.string().optional(),
  PLINTH_ACME_DNS_ZONE: domainName.optional(),
  PLINTH_CERTIFICATES_PORT: port.optional(),
  PLINTH_SMTP_URL: z
    .string()
    .regex(/^smtps?:\/\/[^/]/, 'must start with smtp:// or smtps://')
    .optional(),
  PLINTH_MAIL_FROM: z.string().optional(),
  PLINTH_BUILD_MEMORY: byteSize.optional(),
  PLINTH_BUILD_TIMEOUT: duration.default(10 * 60_000),
  PLINTH_BUILD_SLOTS: z.coerce.number().int().min(1).max(256).optional(),
  PLINTH_BUILDS_PER_PROJECT: z.coerce.number().int().min(1).max(256).optional(),
  PLINTH_BUILD_SANDBOX: z.enum(['required', 'unsafe']).default('required'),
  PLINTH_BUILD_EGRESS_HOSTS: commaList.optional(),
  PLINTH_BUILD_CA_FILE: z.string().optional(),
  PLINTH_BUILD_DIR: z.string().optional(),
  PLINTH_BUILD_TOOLCHAIN: z.string().optional(),
  PLINTH_BUILD_BWRAP: z.string().default('bwrap'),
  PLINTH_ALLOW_PRIVATE_GIT: z.enum(['true', 'false'], 'must be true or false').default('false'),
  PLINTH_PLANS_FILE: z.string().optional(),
  PLINTH_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

/** Where npm finds its configuration and the way to the registry. */
const npmSetting = /^(npm_execpath|npm_config_(registry|cafile|userconfig|globalconfig)|(https?|no)_proxy)$/i

const inheritedNames = ['PATH', 'HOME', 'TMPDIR', 'TZ', 'NODE_EXTRA_CA_CERTS'] as const

export type Environment = Readonly<Record<string, string | undefined>>

/** Every setting, validated, with the rules between them applied. Paths are absolute, sizes in bytes, times in milliseconds. */
export type Config = ReturnType<typeof loadConfig>

/**
 * Reads the settings. The defaults are the embedded mode on one machine.
 * @throws ConfigError naming the variable and what is wrong with it
 */
export function loadConfig(env: Environment = process.env) {
  const own = Object.fromEntries(Object.entries(env).filter(([name, value]) => name.startsWith('PLINTH_') && value !== ''))
  const parsed = settings.safeParse(own)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw new ConfigError(`${String(issue?.path[0])} ${issue?.message ?? 'is not valid'}`)
  }
  const s = parsed.data
  const dataDir = resolve(s.PLINTH_DATA_DIR)
  const base = s.PLINTH_BASE_URL ?? new URL(`http://localhost:${s.PLINTH_HTTP_PORT}`)
  const preview = s.PLINTH_PREVIEW_URL ?? withHost(base, `preview.${base.hostname}`)
  for (const [name, host] of [
    ['PLINTH_BASE_URL', base.hostname],
    ['PLINTH_PREVIEW_URL', preview.hostname],
  ] as const) {
    if (host === s.PLINTH_PLATFORM_DOMAIN || host.endsWith(`.${s.PLINTH_PLATFORM_DOMAIN}`)) {
      throw new ConfigError(
        `${name} has the host ${host}, which lies in the sites' domain ${s.PLINTH_PLATFORM_DOMAIN}: a site could take its name; choose another`,
      )
    }
  }
  const slots = s.PLINTH_BUILD_SLOTS ?? availableParallelism()
  const socketDir = join(tmpdir(), `plinth-${process.getuid?.() ?? 0}-${dataDirHash(dataDir)}`)
  return {
    dataDir,
    /** Variables that look like settings and are none: a slip of the pen, or of another version. They are ignored. */
    unknownSettings: Object.keys(own).filter((name) => !(name in settings.shape)),
    /** Tools that the launcher fetched or built, shared by all data directories of this user. */
    cacheDir: resolve(s.PLINTH_CACHE_DIR ?? join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'plinth')),
    /** What the processes get of the launcher's own environment. */
    inherited: Object.fromEntries(inheritedNames.flatMap((name) => (env[name] ? [[name, env[name]]] : []))) as Environment,
    /** The npm of this machine, program first. */
    npm: (env.npm_execpath ? [process.execPath, env.npm_execpath] : ['npm']) as [string, ...string[]],
    /** What it takes of the environment, for a process that gets no other. */
    npmEnvironment: Object.fromEntries(Object.entries(env).filter(([name]) => npmSetting.test(name))) as Environment,
    logLevel: s.PLINTH_LOG_LEVEL,
    http: {
      port: s.PLINTH_HTTP_PORT,
      httpsPort: s.PLINTH_HTTPS_PORT,
      /** Addresses that Caddy binds; undefined means loopback when the base host is localhost, else all. */
      listen: s.PLINTH_LISTEN ?? (base.hostname === 'localhost' ? ['127.0.0.1', '[::1]'] : ['']),
      trustedProxies: s.PLINTH_TRUSTED_PROXIES,
    },
    urls: {
      /** Without a trailing slash, as every link is made from it. */
      base: base.origin,
      mcp: (s.PLINTH_MCP_URL ?? base).origin,
      preview: preview.origin,
      platformDomain: s.PLINTH_PLATFORM_DOMAIN,
    },
    /** Unix sockets between Caddy and our processes. The folder is 0700 and its path short: longer ones than 108 bytes are cut silently. */
    sockets: {
      dir: socketDir,
      api: join(socketDir, 'api.sock'),
      edge: join(socketDir, 'edge.sock'),
      caddyAdmin: join(socketDir, 'caddy-admin.sock'),
    },
    /** `url` undefined: the embedded server. */
    database: { url: s.PLINTH_DATABASE_URL, port: s.PLINTH_POSTGRES_PORT },
    /** `address` undefined: the embedded dev server. */
    temporal: {
      address: s.PLINTH_TEMPORAL_ADDRESS,
      namespace: s.PLINTH_TEMPORAL_NAMESPACE,
      port: s.PLINTH_TEMPORAL_PORT,
      uiPort: s.PLINTH_TEMPORAL_UI_PORT,
      uiUrl: s.PLINTH_TEMPORAL_UI_URL?.origin,
    },
    storage: {
      url: s.PLINTH_STORAGE_URL ?? pathToFileURL(join(dataDir, 'cas')).href,
      /** Folders with copies of its objects, such as a backup's, from which damaged ones are repaired. */
      copies: s.PLINTH_STORAGE_COPIES.map((folder) => resolve(folder)),
    },
    /** Undefined until the launcher has made one. */
    operatorToken: s.PLINTH_OPERATOR_TOKEN,
    /** 32 bytes, from which other keys are derived. Undefined until the launcher has made one. */
    secretKey: s.PLINTH_SECRET_KEY,
    names: {
      trashPeriodMs: s.PLINTH_TRASH_PERIOD,
      switchDelayMs: s.PLINTH_SUBDOMAIN_SWITCH_DELAY,
      changeIntervalMs: s.PLINTH_SUBDOMAIN_CHANGE_INTERVAL,
    },
    dns: {
      /** The shortest time between two look-ups of a domain. */
      checkIntervalMs: s.PLINTH_DNS_CHECK_INTERVAL,
      /** Undefined: those of this machine. */
      servers: s.PLINTH_DNS_SERVERS,
      /** Where the A records of custom domains should point to. */
      servingIps: s.PLINTH_SERVING_IPS,
    },
    acme: {
      /** Undefined: nothing is ordered, and custom domains are served over http. */
      directory: s.PLINTH_ACME_DIRECTORY,
      /** Asked first after a failure, to save the tries that the other one allows. */
      stagingDirectory: s.PLINTH_ACME_STAGING_DIRECTORY,
      caFile: readableFile(s.PLINTH_ACME_CA_FILE, 'PLINTH_ACME_CA_FILE'),
      email: s.PLINTH_ACME_EMAIL,
      /** After the first failed order; later pauses grow from it. */
      retryPauseMs: s.PLINTH_ACME_RETRY_PAUSE,
      /** Our name server for DNS-01, and the zone that is delegated to it; both or none. */
      dns: acmeDns(s.PLINTH_ACME_DNS_LISTEN, s.PLINTH_ACME_DNS_ZONE),
      /** The loopback port on which the edge gives Caddy certificates. Undefined until the launcher has chosen one. */
      certificatesPort: s.PLINTH_CERTIFICATES_PORT,
    },
    mail: {
      /** Undefined: mails are kept and not sent. */
      smtpUrl: s.PLINTH_SMTP_URL,
      from: s.PLINTH_MAIL_FROM ?? `Plinth <noreply@${base.hostname}>`,
    },
    build: {
      slots,
      /** Builds of one project that run or wait for a slot at once; others wait for a permit. */
      perProject: s.PLINTH_BUILDS_PER_PROJECT ?? Math.ceil(slots / 2),
      memoryBytes: s.PLINTH_BUILD_MEMORY ?? Math.min(4 * GiB, Math.floor(totalmem() / 2 / slots)),
      timeoutMs: s.PLINTH_BUILD_TIMEOUT,
      sandbox: s.PLINTH_BUILD_SANDBOX,
      /** Undefined: the launcher asks npm for the registries of this machine. */
      egressHosts: s.PLINTH_BUILD_EGRESS_HOSTS,
      caFile: s.PLINTH_BUILD_CA_FILE,
      /** Workspaces of running builds; every parent folder must be searchable by the build users. */
      dir: resolve(s.PLINTH_BUILD_DIR ?? join(dataDir, 'builds')),
      /** Holds a folder for each Node and package manager that builds have asked for: node-20, pnpm-10. */
      toolchainDir: resolve(s.PLINTH_BUILD_TOOLCHAIN ?? join(dataDir, 'toolchains')),
      /** The bubblewrap program: a path, or a name on the PATH. */
      bwrap: s.PLINTH_BUILD_BWRAP,
    },
    git: {
      /** Repositories may lie in private networks, on every port and behind plain http: only where all users are trusted with these. */
      allowPrivate: s.PLINTH_ALLOW_PRIVATE_GIT === 'true',
    },
    plans: s.PLINTH_PLANS_FILE ? loadPlans(s.PLINTH_PLANS_FILE) : defaultPlans,
    plansFile: s.PLINTH_PLANS_FILE,
  }
}

/** @throws ConfigError when only one is set */
function acmeDns(listen: string | undefined, zone: string | undefined) {
  if (listen !== undefined && zone !== undefined) return { listen, zone }
  if (listen === undefined && zone === undefined) return undefined
  throw new ConfigError('PLINTH_ACME_DNS_LISTEN and PLINTH_ACME_DNS_ZONE belong together: set both, or none for HTTP-01 only')
}

/** @throws ConfigError when it cannot be read */
function readableFile(file: string | undefined, setting: string): string | undefined {
  if (file === undefined) return undefined
  try {
    readFileSync(file)
    return resolve(file)
  } catch (cause) {
    throw new ConfigError(`${setting} ${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

/** Twelve hex digits that name a data directory in folders outside of it. */
export const dataDirHash = (dataDir: string) => createHash('sha256').update(dataDir).digest('hex').slice(0, 12)

/** The address of a site: scheme and port are those of the base address, never of a request. */
export function siteUrl(config: Pick<Config, 'urls'>, subdomain: string): string {
  return withHost(new URL(config.urls.base), `${subdomain}.${config.urls.platformDomain}`).origin
}

/** @throws ConfigError naming the file that the key was read from */
export function parseSecretKey(text: string, file: string): Uint8Array {
  const parsed = secretKey.safeParse(text)
  if (!parsed.success) throw new ConfigError(`the secret key in ${file} ${secretKeyForm}`)
  return parsed.data
}

/** The address that a preview link opens at. */
export const previewUrl = ({ urls }: Pick<Config, 'urls'>, token: string) => `${urls.preview}/${token}/`

function withHost(base: URL, hostname: string): URL {
  const copy = new URL(base)
  copy.hostname = hostname
  return copy
}

const quotasFile = z.partialRecord(
  z.enum(planNames),
  z.strictObject(
    Object.fromEntries(Object.keys(defaultPlans.free).map((key) => [key, z.number().int().min(0).nullable().optional()])),
  ),
)

function loadPlans(file: string): Plans {
  const parsed = quotasFile.safeParse(readJson(file))
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw new ConfigError(`PLINTH_PLANS_FILE ${file}: ${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not valid'}`)
  }
  const merge = (plan: PlanName) => ({ ...defaultPlans[plan], ...parsed.data[plan] })
  return Object.fromEntries(planNames.map((plan) => [plan, merge(plan)])) as unknown as Plans
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new ConfigError(`PLINTH_PLANS_FILE ${file} cannot be read as JSON`, { cause })
  }
}

/**
 * A setting that a single process cannot do without, although `npm start` fills it in.
 * @throws ConfigError naming the variable
 */
export function required<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new ConfigError(`${name} is not set: this process needs it when it is started on its own`)
  return value
}
