/** The specification's table of limits. KB and MB are 1,024 and 1,048,576 bytes. */
const KB = 1024
const MB = 1024 * KB

export const maxArchiveBytes = 50 * MB
export const maxDeployFilesBodyBytes = 50 * MB
export const maxBlobBytes = 50 * MB
export const maxManifestEntries = 2000
export const maxJsonBodyBytes = 1 * MB
/** What a forge sends to a webhook. */
export const maxHookBodyBytes = 5 * MB
/** What no deploy contains is kept this long: longer than a build waits and an edge is behind. */
export const sweepGraceMs = 24 * 3_600_000
/** A request may take this long until it is accepted: longer than its body may take to arrive. Then what it has stored is removed. */
export const uploadPeriodMs = 15 * 60_000
/** The log of a build is kept this long. */
export const buildLogPeriodMs = 90 * 24 * 3_600_000
/** A preview link lives this long, and keeps the files of its deploy: after it was issued, or after the latest push to its branch. */
export const previewLinkPeriodMs = 30 * 24 * 3_600_000
/** A forge that delivers a webhook again is recognised for so long (addendum E24). */
export const deliveryPeriodMs = 7 * 24 * 3_600_000
/** A manifest of the most entries with long paths takes more. */
export const maxManifestBodyBytes = 4 * MB
/** A 50 MB archive in base64 is 67 MB, plus the envelope. */
export const maxToolBodyBytes = 70 * MB
/** Entries of one archive, directories included. */
export const maxArchiveEntries = 20_000
export const maxPathBytes = 1024
/** All paths of one deploy together: 20,000 files with paths of 200 bytes, while those of usual sites have 30 to 80. */
export const maxDeployPathBytes = 4 * MB
export const maxNameLength = 120
export const maxDescriptionLength = 2000

export const minSubdomainLength = 5
export const maxSubdomainLength = 63
/** Names shorter than this need a paid plan. */
export const freeSubdomainLength = 9
/** A name that a site has left leads to its new one for so long, and nobody else may take it. */
export const formerSubdomainPeriodMs = 30 * 24 * 3_600_000
/** The names of a site that is gone are kept from other projects for so long. */
export const quarantinePeriodMs = 30 * 24 * 3_600_000

/** Changes of a site's subdomain that may be cancelled within the pause between changes: each mails the owner and reserves a name. */
export const maxCancelledChanges = 3

/** A domain whose owner has not proved it for this long may be added by another project. */
export const unprovenDomainPeriodMs = 7 * 24 * 3_600_000
/** An unproven domain that its project deletes and adds again within this time keeps the age that it had. */
export const releasedDomainPeriodMs = 30 * 24 * 3_600_000
/** Domains that a project may add in any hour; each starts a workflow that asks name servers. */
export const maxDomainAddsPerHour = 200
/** Look-ups of a project's domains, by hand and by the platform, within one pause between look-ups of a domain; each takes up to 4 s. */
export const maxLookUpsPerPause = 20
/** For this long the platform looks for the TXT record of a new domain by itself. */
export const connectPeriodMs = 30 * 24 * 3_600_000
/** The pauses between its looks grow up to this. */
export const longestConnectPauseMs = 3_600_000
/** How often the TXT record of a verified domain is looked for. */
export const domainRecheckMs = 24 * 3_600_000
/** A domain stays verified for this long after its TXT record was last seen. */
export const domainProofPeriodMs = 7 * 24 * 3_600_000

/** Mails of one kind about one site or domain that an owner gets in any hour; the others are counted on the last of them. */
export const maxMailsAboutOneThing = 3
/** The text of a mail is kept this long (addendum E37). */
export const mailPeriodMs = 30 * 24 * 3_600_000

/** A JSON body with long strings, such as the contents of files, takes at most so much memory besides them: 2,000 entries with long paths. */
export const maxKeptJsonBytes = 8 * MB
/** A body may arrive as slowly as its sender likes for so long, and then has to keep up this average. */
export const slowBodyGraceMs = 10_000
export const minBodyBytesPerSecond = 8 * KB
/** A body of at most so many bytes waits for no other: neither its chunks nor the request. */
export const smallBodyBytes = 64 * KB

/**
 * What one process of the api admits at once: of one payer, and of all. Limits that have to hold across processes are in PostgreSQL. A payer
 * never gets more than what is still free, so a few greedy ones always leave room for another.
 */
export const admissionLimits = {
  /** Requests from their key, or the site that they are for, until their answer. */
  requests: { project: 100, site: 40, address: 100, server: 1000 },
  /** Bytes of bodies in memory. */
  memory: { project: 32 * MB, site: 20 * MB, address: 40 * MB, server: 160 * MB },
  /** Bytes of bodies in files. Eight uploads of the largest size at once, and a CI with as many again. */
  spool: { project: 800 * MB, site: 0, address: 0, server: 4096 * MB },
  /** Chunks of large bodies, of at most 64 KB, that are worked on in one turn of the event loop: at most some milliseconds. */
  chunksPerTurn: 4,
  /** Large `deploy-files` requests that wait while another one of the payer is processed. */
  largeRequests: { waiting: 16, serverWaiting: 64 },
  /** Connections to the database; the pool has two more, for what nobody pays for. */
  connections: { held: 4, server: 8, waiting: 200, serverWaiting: 2000 },
  /** A request waits for a connection at most so long. */
  connectionPatienceMs: 10_000,
} as const
