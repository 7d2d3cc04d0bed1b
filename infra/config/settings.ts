import { z } from 'zod'
import { isPlainAddress } from '../../core/emails.ts'
import {
  botToken,
  buildCount,
  byteSize,
  commaList,
  domainName,
  duration,
  folders,
  httpsUrl,
  origin,
  path,
  port,
  readableFile,
  secretKey,
  trueOrFalse,
  visibleText,
} from './schemas.ts'
import type { Role, SettingsTable } from './setting.ts'

const all: readonly Role[] = ['api', 'worker', 'runner', 'edge']
const launcher: readonly Role[] = []

// Longer than other files, because it is one table with a row for each setting.

/**
 * Every setting, in the nested form of the configuration. The validated configuration, the environments of the child processes and
 * `docs/settings.md` (`npm run docs`) are made from it. What depends on other settings is completed in `config.ts`.
 */
export const settings = {
  dataDir: {
    name: 'PLINTH_DATA_DIR',
    schema: path,
    default: '.plinth',
    processes: all,
    about: 'The folder with everything that has to be kept.',
  },
  cacheDir: {
    name: 'PLINTH_CACHE_DIR',
    schema: path,
    otherwise: '`~/.cache/plinth`',
    processes: ['worker', 'runner'],
    about: 'Holds the tools that Plinth has downloaded or built, shared by all data directories of this user.',
  },
  operatorToken: {
    name: 'PLINTH_OPERATOR_TOKEN',
    schema: z.string().min(16, 'must have at least 16 characters'),
    otherwise: 'generated into the data directory',
    processes: ['api'],
    about: 'The token of the operator API, of at least 16 characters.',
  },
  secretKey: {
    name: 'PLINTH_SECRET_KEY',
    schema: secretKey,
    otherwise: 'generated into the data directory',
    processes: ['api', 'worker', 'edge'],
    about: '32 bytes in base64 that seal stored secrets; preview links and the ACME account are derived from them.',
  },
  runnerToken: {
    name: 'PLINTH_RUNNER_TOKEN',
    schema: z.string().min(32, 'must have at least 32 characters'),
    otherwise: 'derived from the secret key',
    processes: ['api', 'runner'],
    about: 'The token with which runners read the variables of their builds from the API, of at least 32 characters.',
  },
  apiUrl: {
    name: 'PLINTH_API_URL',
    schema: origin,
    otherwise: 'the socket of the API on this machine',
    processes: ['runner'],
    about: 'The address at which a runner on another machine reaches the API.',
  },
  plansFile: {
    name: 'PLINTH_PLANS_FILE',
    schema: z.string(),
    otherwise: 'the built-in plans',
    processes: ['api', 'worker'],
    about: 'A JSON file with quotas that replace those of the built-in plans; `null` means unlimited.',
  },
  logLevel: {
    name: 'PLINTH_LOG_LEVEL',
    schema: z.enum(['debug', 'info', 'warn', 'error', 'silent']),
    default: 'info',
    processes: all,
    about: 'How much is logged: `debug`, `info`, `warn`, `error` or `silent`; `debug` logs every request.',
  },
  http: {
    port: {
      name: 'PLINTH_HTTP_PORT',
      schema: port,
      default: '8080',
      processes: all,
      about: 'The port on which Caddy serves http.',
    },
    httpsPort: {
      name: 'PLINTH_HTTPS_PORT',
      schema: port,
      default: '8443',
      processes: all,
      about: 'The port on which Caddy serves https.',
    },
    listen: {
      name: 'PLINTH_LISTEN',
      schema: commaList,
      otherwise: 'loopback when the host of the base address is `localhost`, else all addresses',
      processes: launcher,
      about: 'A comma list of the addresses that Caddy binds.',
    },
    trustedProxies: {
      name: 'PLINTH_TRUSTED_PROXIES',
      schema: commaList,
      default: '',
      processes: launcher,
      about: 'A comma list of the CIDR ranges of proxies whose `X-Forwarded-For` header is believed.',
    },
  },
  urls: {
    base: {
      name: 'PLINTH_BASE_URL',
      schema: origin,
      otherwise: '`http://localhost:<http port>`',
      processes: all,
      about: 'The public address of the API; every link takes its scheme and port from it.',
    },
    mcp: {
      name: 'PLINTH_MCP_URL',
      schema: origin,
      otherwise: 'the base address',
      processes: all,
      about: 'The public address of the MCP server, when it differs from that of the API.',
    },
    preview: {
      name: 'PLINTH_PREVIEW_URL',
      schema: origin,
      otherwise: '`preview.<base host>`',
      processes: all,
      about: 'The address of previews; it needs DNS for `*.<its host>` too and must not lie below the platform domain.',
    },
    platformDomain: {
      name: 'PLINTH_PLATFORM_DOMAIN',
      schema: domainName,
      default: 'plinth.localhost',
      processes: all,
      about: 'Sites are served at `<subdomain>.<platform domain>`.',
    },
  },
  database: {
    url: {
      name: 'PLINTH_DATABASE_URL',
      schema: z.string().regex(/^postgres(ql)?:\/\//, 'must start with postgres://'),
      otherwise: 'an embedded server',
      processes: ['api', 'worker', 'edge'],
      about: 'Your own PostgreSQL server, version 18 or newer, as `postgres://user:password@host:port/database`.',
    },
    port: {
      name: 'PLINTH_POSTGRES_PORT',
      schema: port,
      otherwise: 'a free port',
      processes: launcher,
      about: 'The loopback port of the embedded PostgreSQL server.',
    },
  },
  temporal: {
    address: {
      name: 'PLINTH_TEMPORAL_ADDRESS',
      schema: z.string(),
      otherwise: 'an embedded server',
      processes: ['api', 'worker', 'runner'],
      about: 'Your own Temporal server, as `host:port`.',
    },
    namespace: {
      name: 'PLINTH_TEMPORAL_NAMESPACE',
      schema: z.string(),
      default: 'default',
      processes: ['api', 'worker', 'runner'],
      about: 'The Temporal namespace that Plinth works in.',
    },
    port: {
      name: 'PLINTH_TEMPORAL_PORT',
      schema: port,
      otherwise: '`7233`, or a free port when that is taken',
      processes: launcher,
      about: 'The loopback port of the embedded Temporal server.',
    },
    uiPort: {
      name: 'PLINTH_TEMPORAL_UI_PORT',
      schema: port,
      otherwise: '`8233`, or a free port when that is taken',
      processes: launcher,
      about: 'The loopback port of the Temporal UI of the embedded server.',
    },
    uiUrl: {
      name: 'PLINTH_TEMPORAL_UI_URL',
      schema: origin,
      otherwise: "the embedded server's",
      processes: launcher,
      about: 'The address of your own Temporal UI, which `npm start` prints.',
    },
  },
  storage: {
    url: {
      name: 'PLINTH_STORAGE_URL',
      schema: z.string().regex(/^file:\/\/\//, 'must be a file:/// address'),
      otherwise: '`file://<data dir>/cas`',
      processes: all,
      about: 'Where published files and uploads are stored.',
    },
    copies: {
      name: 'PLINTH_STORAGE_COPIES',
      schema: folders,
      default: '',
      processes: ['worker'],
      about: 'A comma list of folders with copies of the storage, such as `<backup>/cas`; damaged files are repaired from them.',
    },
  },
  names: {
    trashPeriodMs: {
      name: 'PLINTH_TRASH_PERIOD',
      schema: duration,
      default: '24h',
      processes: ['api'],
      about: 'How long a deleted site can be restored.',
    },
    switchDelayMs: {
      name: 'PLINTH_SUBDOMAIN_SWITCH_DELAY',
      schema: duration,
      default: '24h',
      processes: ['api'],
      about: 'The time between the request for a new subdomain and the switch to it.',
    },
    changeIntervalMs: {
      name: 'PLINTH_SUBDOMAIN_CHANGE_INTERVAL',
      schema: duration,
      default: '7d',
      processes: ['api'],
      about: 'The shortest time between two subdomain changes of a site.',
    },
  },
  dns: {
    servers: {
      name: 'PLINTH_DNS_SERVERS',
      schema: commaList,
      otherwise: "the machine's",
      processes: ['api', 'worker'],
      about: 'A comma list of the name servers that are asked for every record; when there are several, two must agree.',
    },
    checkIntervalMs: {
      name: 'PLINTH_DNS_CHECK_INTERVAL',
      schema: duration,
      default: '10s',
      processes: ['api', 'worker'],
      about: 'The shortest time between two look-ups of a domain.',
    },
    servingIps: {
      name: 'PLINTH_SERVING_IPS',
      schema: commaList,
      default: '127.0.0.1',
      processes: ['api', 'worker'],
      about: 'A comma list of the addresses that the A records of custom domains should point to.',
    },
  },
  acme: {
    directory: {
      name: 'PLINTH_ACME_DIRECTORY',
      schema: httpsUrl,
      otherwise: "no certificates are ordered, and custom domains have those of Caddy's own authority",
      processes: ['api', 'worker', 'edge'],
      about: 'The ACME directory of a certificate authority, such as `https://acme-v02.api.letsencrypt.org/directory`.',
    },
    stagingDirectory: {
      name: 'PLINTH_ACME_STAGING_DIRECTORY',
      schema: httpsUrl,
      otherwise: 'none',
      processes: ['api', 'worker'],
      about: "A directory that is asked first after a failure, which saves the authority's limited attempts.",
    },
    caFile: {
      name: 'PLINTH_ACME_CA_FILE',
      schema: readableFile,
      otherwise: 'none',
      processes: ['api', 'worker'],
      about: "A PEM file to trust when the authority's own certificate is private.",
    },
    email: {
      name: 'PLINTH_ACME_EMAIL',
      schema: z.string().refine(isPlainAddress, 'must be one plain address, such as ada@example.com'),
      otherwise: 'none',
      processes: ['api', 'worker'],
      about: 'The contact address of the ACME account.',
    },
    retryPauseMs: {
      name: 'PLINTH_ACME_RETRY_PAUSE',
      schema: duration,
      default: '1m',
      processes: ['api', 'worker'],
      about: 'The pause after the first failed order; later pauses grow from it.',
    },
    /** The name server for DNS-01 and the zone that is delegated to it: both or none. */
    dns: {
      listen: {
        name: 'PLINTH_ACME_DNS_LISTEN',
        schema: z.string(),
        otherwise: 'HTTP-01 only',
        processes: ['api', 'worker'],
        about: 'The address of the name server that answers DNS-01 challenges, such as `0.0.0.0:53`.',
      },
      zone: {
        name: 'PLINTH_ACME_DNS_ZONE',
        schema: domainName,
        otherwise: 'HTTP-01 only',
        processes: ['api', 'worker'],
        about: 'The DNS zone that is delegated to that name server, such as `acme.example.net`.',
      },
    },
    certificatesPort: {
      name: 'PLINTH_CERTIFICATES_PORT',
      schema: port,
      otherwise: 'a free port',
      processes: ['edge'],
      about: 'The loopback port on which the edge hands certificates to Caddy.',
    },
  },
  mail: {
    smtpUrl: {
      name: 'PLINTH_SMTP_URL',
      schema: z.string().regex(/^smtps?:\/\/[^/]/, 'must start with smtp:// or smtps://'),
      otherwise: 'emails are kept for the operator to read',
      processes: ['worker'],
      about: 'The mail server, as `smtp://user:password@host:port` or `smtps://…`.',
    },
    from: {
      name: 'PLINTH_MAIL_FROM',
      schema: z.string(),
      otherwise: '`Plinth <noreply@<base host>>`',
      processes: ['api', 'worker'],
      about: 'The sender of emails.',
    },
  },
  build: {
    slots: {
      name: 'PLINTH_BUILD_SLOTS',
      schema: buildCount,
      otherwise: 'the number of processor cores',
      processes: ['api', 'runner'],
      about: 'How many builds run at once.',
    },
    perProject: {
      name: 'PLINTH_BUILDS_PER_PROJECT',
      schema: buildCount,
      otherwise: 'half of the slots, at least 1',
      processes: ['worker'],
      about: 'How many builds of one project run at once, or wait for a slot; others wait for a permit.',
    },
    memoryBytes: {
      name: 'PLINTH_BUILD_MEMORY',
      schema: byteSize,
      otherwise: 'half of the memory divided by the slots, at most `4g`',
      processes: ['runner'],
      about: 'The memory limit of one build.',
    },
    timeoutMs: {
      name: 'PLINTH_BUILD_TIMEOUT',
      schema: duration,
      default: '10m',
      processes: ['runner'],
      about: 'The time limit of one build.',
    },
    sandbox: {
      name: 'PLINTH_BUILD_SANDBOX',
      schema: z.enum(['required', 'unsafe']),
      default: 'required',
      processes: ['api', 'runner'],
      about:
        '`required` refuses builds, and images for the pages of sites, where they cannot be isolated; `unsafe` takes them without isolation.',
    },
    egressHosts: {
      name: 'PLINTH_BUILD_EGRESS_HOSTS',
      schema: commaList,
      otherwise: "the registries of this machine's npm, and PyPI",
      processes: ['runner'],
      about: 'A comma list of hosts that builds may reach by name even when they have private addresses.',
    },
    caFile: {
      name: 'PLINTH_BUILD_CA_FILE',
      schema: z.string(),
      otherwise: "npm's `cafile`, else `NODE_EXTRA_CA_CERTS`",
      processes: ['runner'],
      about: 'A PEM file of certificate authorities that builds trust.',
    },
    dir: {
      name: 'PLINTH_BUILD_DIR',
      schema: path,
      otherwise: '`<data dir>/builds`',
      processes: ['runner'],
      about: 'Holds the workspaces of builds and kept packages; the build users must be able to search every parent folder.',
    },
    toolchainDir: {
      name: 'PLINTH_BUILD_TOOLCHAIN',
      schema: path,
      otherwise: 'the cache directory, or `<data dir>/toolchains` where the build users cannot reach that',
      processes: ['runner'],
      about:
        'Holds a folder for each Node, package manager, Hugo and pip, such as `node-20` and `pnpm-10`, fetched when a build first asks.',
    },
    bwrap: {
      name: 'PLINTH_BUILD_BWRAP',
      schema: z.string(),
      default: 'bwrap',
      processes: ['api', 'runner'],
      about: 'The bubblewrap program: a path, or a name on the `PATH`.',
    },
  },
  forms: {
    digestPauseMs: {
      name: 'PLINTH_FORM_DIGEST_PAUSE',
      schema: duration,
      default: '10m',
      processes: ['api', 'worker'],
      about:
        'How long form submissions are gathered after an email about them; while they go on, each pause is twice as long, up to six times this.',
    },
  },
  webhooks: {
    allowPrivate: {
      name: 'PLINTH_ALLOW_PRIVATE_WEBHOOKS',
      schema: trueOrFalse,
      default: 'false',
      processes: ['api', 'worker'],
      about: 'Lets webhooks be in private networks, on any port and without https: only where every user is trusted with these.',
    },
    retryPauseMs: {
      name: 'PLINTH_WEBHOOK_RETRY_PAUSE',
      schema: duration,
      default: '5s',
      processes: ['worker'],
      about: 'The pause after the first failed try of a webhook; later pauses grow from it, to a day in all by default.',
    },
  },
  messengers: {
    telegram: {
      token: {
        name: 'PLINTH_TELEGRAM_BOT_TOKEN',
        schema: botToken,
        otherwise: 'no channels of Telegram',
        processes: ['api', 'worker'],
        about: 'The token of the Telegram bot that lets the subscribers of channels into closed sites.',
      },
      api: {
        name: 'PLINTH_TELEGRAM_API',
        schema: origin,
        default: 'https://api.telegram.org',
        processes: ['api', 'worker'],
        about: 'The address of the Telegram Bot API; it may be a server of your own.',
      },
    },
    max: {
      token: {
        name: 'PLINTH_MAX_BOT_TOKEN',
        schema: botToken,
        otherwise: 'no channels of MAX',
        processes: ['api', 'worker'],
        about: 'The token of the MAX bot that lets the subscribers of channels into closed sites.',
      },
      api: {
        name: 'PLINTH_MAX_API',
        schema: origin,
        default: 'https://platform-api2.max.ru',
        processes: ['api', 'worker'],
        about: 'The address of the MAX Bot API, whose certificate may need `NODE_EXTRA_CA_CERTS`.',
      },
    },
  },
  payments: {
    test: {
      name: 'PLINTH_PAYMENTS_TEST',
      schema: trueOrFalse,
      default: 'false',
      processes: ['api', 'worker'],
      about: 'Lets sites use the payment provider `test`, at which everybody can pay without money: never where access is sold.',
    },
    /** The shop and its key: both or none. */
    yookassa: {
      shopId: {
        name: 'PLINTH_YOOKASSA_SHOP_ID',
        schema: z.string().regex(/^\d{1,20}$/, 'must be the number of a shop'),
        otherwise: 'no payments by YooKassa',
        processes: ['api', 'worker'],
        about: 'The id of the shop at YooKassa that payments for closed sites go to.',
      },
      secretKey: {
        name: 'PLINTH_YOOKASSA_SECRET_KEY',
        schema: visibleText,
        otherwise: 'no payments by YooKassa',
        processes: ['api', 'worker'],
        about: 'The secret key of that shop.',
      },
      api: {
        name: 'PLINTH_YOOKASSA_API',
        schema: origin,
        default: 'https://api.yookassa.ru',
        processes: ['api', 'worker'],
        about: 'The address of the API of YooKassa.',
      },
    },
    /** The key and the secret of its webhook: both or none. */
    stripe: {
      secretKey: {
        name: 'PLINTH_STRIPE_SECRET_KEY',
        schema: visibleText,
        otherwise: 'no payments by Stripe',
        processes: ['api', 'worker'],
        about: 'The secret or restricted key of the Stripe account that payments for closed sites go to.',
      },
      webhookSecret: {
        name: 'PLINTH_STRIPE_WEBHOOK_SECRET',
        schema: visibleText,
        otherwise: 'no payments by Stripe',
        processes: ['api', 'worker'],
        about: 'The signing secret of the webhook endpoint at Stripe, which begins with `whsec_`.',
      },
      api: {
        name: 'PLINTH_STRIPE_API',
        schema: origin,
        default: 'https://api.stripe.com',
        processes: ['api', 'worker'],
        about: 'The address of the API of Stripe.',
      },
    },
  },
  git: {
    allowPrivate: {
      name: 'PLINTH_ALLOW_PRIVATE_GIT',
      schema: trueOrFalse,
      default: 'false',
      processes: ['api', 'worker'],
      about:
        'Lets repositories be in private networks, on any port and without https: only where every user is trusted with these.',
    },
  },
} as const satisfies SettingsTable
