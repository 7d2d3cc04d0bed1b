/** The specification's table of limits. KB and MB are 1,024 and 1,048,576 bytes. */
const KB = 1024
const MB = 1024 * KB

export const maxArchiveBytes = 50 * MB
export const maxDeployFilesBodyBytes = 50 * MB
export const maxBlobBytes = 50 * MB
export const maxManifestEntries = 2000
export const maxJsonBodyBytes = 1 * MB
/** The body of a webhook delivery. */
export const maxHookBodyBytes = 5 * MB
/** Objects that no deploy contains are kept this long: longer than a build waits, and than an edge may lag behind. */
export const sweepGraceMs = 24 * 3_600_000
/** An upload must be accepted within this time, which is longer than its body may take to arrive. After that, its objects are removed. */
export const uploadPeriodMs = 15 * 60_000
/** The log of a build is kept this long. */
export const buildLogPeriodMs = 90 * 24 * 3_600_000
/** The archive of a failed deploy is kept this long, so that it can be retried. */
export const failedSourcePeriodMs = 7 * 24 * 3_600_000
/** The archives of failed deploys that a site keeps. */
export const maxFailedSources = 3
/** The lifetime of a preview link, from its issue or the latest push to its branch. For so long it keeps the files of its deploy. */
export const previewLinkPeriodMs = 30 * 24 * 3_600_000
/** The newest deploys of a site have a permanent link; all of them are in the route of the site, in the memory of every edge. */
export const maxPermanentLinks = 1000
/** The longest time for which a site retains the hashed assets of a superseded deploy (addendum E34). */
export const maxAssetRetentionDays = 30
/** A repeated delivery of a webhook is recognised for this long (addendum E24). */
export const deliveryPeriodMs = 7 * 24 * 3_600_000
/** Limits the entries with long paths: a manifest with the most entries and the longest paths would take more. */
export const maxManifestBodyBytes = 4 * MB
/** A 50 MB archive in base64 is 67 MB, plus the envelope. */
export const maxToolBodyBytes = 70 * MB
/** Entries of one archive, directories included. */
export const maxArchiveEntries = 20_000
export const maxPathBytes = 1024
/** All paths of one deploy together: 20,000 files with paths of 200 bytes; paths of usual sites have 30 to 80. */
export const maxDeployPathBytes = 4 * MB
export const maxNameLength = 120
export const maxTitleLength = 120
export const maxDescriptionLength = 2000
/** Patterns of paths whose changes a push has to touch. */
export const maxWatchPaths = 100
export const maxSuspendedReasonLength = 500

export const minSubdomainLength = 5
export const maxSubdomainLength = 63
/** Names shorter than this need a paid plan. */
export const freeSubdomainLength = 9
/** The old name of a site redirects to its new one for this long, and nobody else may take it. */
export const formerSubdomainPeriodMs = 30 * 24 * 3_600_000
/** The names of a removed site stay reserved for its project for this long. */
export const quarantinePeriodMs = 30 * 24 * 3_600_000

/** Changes of a site's subdomain that may be cancelled within the pause between changes: each sends an email and reserves a name. */
export const maxCancelledChanges = 3

/** A domain whose owner has not proved it for this long may be added by another project. */
export const unprovenDomainPeriodMs = 7 * 24 * 3_600_000
/** An unproven domain that its project deletes and adds again within this time keeps the age that it had. */
export const releasedDomainPeriodMs = 30 * 24 * 3_600_000
/** Domains that a project may add in any hour; each starts a workflow that asks name servers. */
export const maxDomainAddsPerHour = 200
/** Look-ups of a project's domains, by the owner and by the platform, within one pause between look-ups; each takes up to 4 s. */
export const maxLookUpsPerPause = 20
/** How long the platform looks for the TXT record of a new domain by itself. */
export const connectPeriodMs = 30 * 24 * 3_600_000
/** The longest pause between two of these look-ups; the pauses grow. */
export const longestConnectPauseMs = 3_600_000
/** How often the TXT record of a verified domain is checked. */
export const domainRecheckMs = 24 * 3_600_000
/** A domain stays verified for this long after its TXT record was last seen. */
export const domainProofPeriodMs = 7 * 24 * 3_600_000

/** Emails of one kind about one site or domain that an owner gets in any hour; further ones are only counted, on the latest of them. */
export const maxEmailsAboutOneThing = 3
/** The text of an email is kept this long (addendum E37). */
export const emailPeriodMs = 30 * 24 * 3_600_000

export const maxAutoreplySubjectLength = 120
export const maxAutoreplyBodyLength = 4096
export const maxEmailFieldLength = 64
/** A mailbox gets one reply of a site, and so many of all sites, within this time. */
export const replyPeriodMs = 24 * 3_600_000
export const maxRepliesOfMailbox = 10

/** Posts of forms that a site takes, and that an address sends, in any minute. */
export const maxPostsPerSite = 30
export const maxPostsPerAddress = 10
export const formRatePeriodMs = 60_000
/** Submissions over the quota of a month are stored hidden, up to so many times the quota; spam likewise. */
export const hiddenSubmissionsFactor = 10
/** A search of submissions looks through so many of the newest; most take a millisecond for 100. */
export const maxSearchedSubmissions = 50_000
/** Fields with a column of their own in an export; visitors choose the names. */
export const maxCsvFields = 200
/** Fields with longer names share the last column of an export. */
export const maxCsvNameLength = 256
/** The most spam of a project whose submissions are unlimited. */
export const maxUnlimitedSpam = 250_000
/** Spam is kept this long (addendum E35). */
export const spamPeriodMs = 30 * 24 * 3_600_000

/** The memory of a JSON body besides its long strings, such as the contents of files: enough for 2,000 entries with long paths. */
export const maxKeptJsonBytes = 8 * MB
/** The connection of a visitor who takes nothing of an answer for so long is closed. A phone in a tunnel pauses for more than 15 s. */
export const stalledVisitMs = 60_000
/** A body may arrive at any pace for this long; from then on it must keep up the minimum average below. */
export const slowBodyGraceMs = 10_000
export const minBodyBytesPerSecond = 8 * KB
/** A body up to this size never waits for a slot: neither its chunks nor the request. */
export const smallBodyBytes = 64 * KB

/** An answer up to this size is sent as a whole; a larger one is read and sent in parts, and counts against the budget of its payer. */
export const smallAnswerBytes = 64 * KB
/** Rows of a list that are read together: so many bytes of them, and one row at least. */
export const answerBatchBytes = 256 * KB
/** Rows of a list that are read together when they are small. */
export const answerBatchRows = 200
/** Consents of a member that a list of members shows. */
export const maxShownConsents = 1000
/** Records of a domain that a finding shows. */
export const maxShownRecords = 50
/** Bytes held for a large answer: a batch as rows, as objects and as JSON. */
export const answerHoldBytes = 1 * MB
/** The JSON of a tool's list. A tool cannot stream, so it cuts a longer list and says where it goes on. */
export const maxToolListBytes = 128 * KB

/**
 * The limits of one api process, for each payer and for all together. Limits that must hold across processes are in PostgreSQL. A payer
 * never gets more than what is still free, so a few greedy payers always leave room for another.
 */
export const admissionLimits = {
  /** Requests under way, counted until they are answered. */
  requests: { project: 100, site: 40, address: 100, server: 1000 },
  /** Bytes of bodies in memory. */
  memory: { project: 32 * MB, site: 20 * MB, address: 40 * MB, server: 160 * MB },
  /** Bytes of bodies in files. Eight uploads of the largest size at once, and a CI with as many again. */
  spool: { project: 800 * MB, site: 0, address: 0, server: 4096 * MB },
  /** Bytes of large answers that are being sent, {@link answerHoldBytes} for each. */
  answers: { project: 32 * MB, site: 0, address: 0, server: 160 * MB },
  /** Chunks of large bodies and answers, of at most 64 KB, processed in one turn of the event loop: a few milliseconds at most. */
  chunksPerTurn: 4,
  /** Batches of large answers that are read from PostgreSQL or the storage at once. */
  batches: { project: 1, server: 2 },
  /** Large `deploy-files` requests that wait while another of the same payer is processed. */
  largeRequests: { waiting: 16, serverWaiting: 64 },
  /** Database connections; the pool has two more for work that belongs to no payer. */
  connections: { held: 4, server: 8, waiting: 200, serverWaiting: 2000 },
  /** How long a request waits for a connection. */
  connectionPatienceMs: 10_000,
} as const
