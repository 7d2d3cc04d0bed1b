import type { Config } from '../config.ts'

export type Role = 'api' | 'worker' | 'runner' | 'edge'

/**
 * The whole environment of one of our processes, made from the settings as the launcher has completed them; nothing else is inherited.
 * Each gets what it needs and no more: the runner, which runs foreign code, has neither database nor operator token nor secret key.
 */
export function childEnvironment(config: Config, role: Role): Record<string, string> {
  const { http, urls, build, temporal, names, dns, acme, mail, storage } = config
  const common = {
    PLINTH_DATA_DIR: config.dataDir,
    PLINTH_LOG_LEVEL: config.logLevel,
    PLINTH_STORAGE_URL: storage.url,
    PLINTH_HTTP_PORT: http.port,
    PLINTH_HTTPS_PORT: http.httpsPort,
    PLINTH_BASE_URL: urls.base,
    PLINTH_MCP_URL: urls.mcp,
    PLINTH_PREVIEW_URL: urls.preview,
    PLINTH_PLATFORM_DOMAIN: urls.platformDomain,
  }
  const database = { PLINTH_DATABASE_URL: config.database.url }
  const workflows = { PLINTH_TEMPORAL_ADDRESS: temporal.address, PLINTH_TEMPORAL_NAMESPACE: temporal.namespace }
  const plans = { PLINTH_PLANS_FILE: config.plansFile }
  const domains = {
    PLINTH_DNS_SERVERS: dns.servers?.join(','),
    PLINTH_DNS_CHECK_INTERVAL: `${dns.checkIntervalMs}ms`,
    PLINTH_SERVING_IPS: dns.servingIps.join(','),
    PLINTH_ACME_DIRECTORY: acme.directory,
    PLINTH_ACME_STAGING_DIRECTORY: acme.stagingDirectory,
    PLINTH_ACME_CA_FILE: acme.caFile,
    PLINTH_ACME_EMAIL: acme.email,
    PLINTH_ACME_RETRY_PAUSE: `${acme.retryPauseMs}ms`,
    PLINTH_ACME_DNS_LISTEN: acme.dns?.listen,
    PLINTH_ACME_DNS_ZONE: acme.dns?.zone,
  }
  const repositories = { PLINTH_ALLOW_PRIVATE_GIT: config.git.allowPrivate }
  const letters = { PLINTH_MAIL_FROM: mail.from }
  const secrets = { PLINTH_SECRET_KEY: config.secretKey && Buffer.from(config.secretKey).toString('base64') }
  const own = {
    api: {
      ...database,
      ...workflows,
      ...plans,
      ...domains,
      ...letters,
      ...repositories,
      PLINTH_TRASH_PERIOD: `${names.trashPeriodMs}ms`,
      PLINTH_SUBDOMAIN_SWITCH_DELAY: `${names.switchDelayMs}ms`,
      PLINTH_SUBDOMAIN_CHANGE_INTERVAL: `${names.changeIntervalMs}ms`,
      PLINTH_OPERATOR_TOKEN: config.operatorToken,
      ...secrets,
      PLINTH_BUILD_SLOTS: build.slots,
    },
    worker: {
      ...database,
      ...workflows,
      ...plans,
      ...domains,
      ...letters,
      ...repositories,
      ...secrets,
      PLINTH_STORAGE_COPIES: storage.copies.join(','),
      PLINTH_SMTP_URL: mail.smtpUrl,
      PLINTH_BUILDS_PER_PROJECT: build.perProject,
    },
    edge: { ...database, ...secrets, PLINTH_CERTIFICATES_PORT: acme.certificatesPort },
    runner: {
      ...workflows,
      ...config.npmEnvironment,
      PLINTH_CACHE_DIR: config.cacheDir,
      PLINTH_BUILD_SLOTS: build.slots,
      PLINTH_BUILD_MEMORY: build.memoryBytes,
      PLINTH_BUILD_TIMEOUT: `${build.timeoutMs}ms`,
      PLINTH_BUILD_SANDBOX: build.sandbox,
      PLINTH_BUILD_EGRESS_HOSTS: build.egressHosts?.join(','),
      PLINTH_BUILD_CA_FILE: build.caFile,
      PLINTH_BUILD_DIR: build.dir,
      PLINTH_BUILD_TOOLCHAIN: build.toolchainDir,
      PLINTH_BUILD_BWRAP: build.bwrap,
    },
  }[role]
  return Object.fromEntries(
    Object.entries({ ...config.inherited, ...common, ...own }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  )
}
