import { setTimeout as pause } from 'node:timers/promises'
import { judgeLinks } from '../../core/checks/links.ts'
import { collectFindings, type Findings, type Recommendation } from '../../core/checks/recommendation.ts'
import { checkFile, checkSite } from '../../core/checks.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import type { Cas, ObjectBatch } from '../cas/cas.ts'
import { type BlobFacts, createBlobReader, tellsSomething } from './blob-facts.ts'
import type { FactsReader } from './facts-reader.ts'
import { createPace } from './pace.ts'

export interface CheckOptions {
  readonly budgetMs: number
  readonly signal?: AbortSignal
  /** Where the files are when they are not in the storage yet. */
  readonly objects?: Pick<ObjectBatch, 'open'>
}

export interface CheckResult {
  readonly recommendations: Recommendation[]
  /** False when the budget did not suffice for all files. */
  readonly complete: boolean
}

export interface SiteChecks {
  /**
   * Looks a published file set through. Answers what it has found when the budget ends.
   * @throws Error when the storage lacks a file
   */
  findRecommendations(files: readonly ManifestEntry[], options: CheckOptions): Promise<CheckResult>
}

type ReadFacts = (file: ManifestEntry) => Promise<BlobFacts>

/** Files that are read ahead of the one being judged. */
const readAhead = 4
const nothing: BlobFacts = {}

/** @param reader one for a process; it stays open for as long as checks are made */
export function createSiteChecks(cas: Cas, reader: FactsReader): SiteChecks {
  const read = createBlobReader(reader)
  return {
    async findRecommendations(files, { budgetMs, signal, objects = cas }) {
      const factsOf: ReadFacts = async (file) => (tellsSomething(file) ? await read(file, objects) : nothing)
      const startedAt = performance.now()
      const isOver = () => signal?.aborted === true || performance.now() - startedAt >= budgetMs
      const findings = collectFindings()
      // a storage that hangs does not hold the caller longer than its budget
      const complete = await endWithin(budgetMs, judgeFiles(files, factsOf, findings, isOver))
      return { recommendations: findings.list(), complete }
    },
  }
}

/** Judges the files in their order, so that the list is the same every time. False when it is over before the last. */
async function judgeFiles(
  files: readonly ManifestEntry[],
  factsOf: ReadFacts,
  findings: Findings,
  isOver: () => boolean,
): Promise<boolean> {
  const paths = new Set(files.map((file) => file.path))
  const has = (path: string) => paths.has(path)
  const startFile = files.find((file) => file.path === 'index.html')
  const start = startFile && (await factsOf(startFile)).page
  const isBroken = judgeLinks({ has, routesInBrowser: start?.mayRoute ?? true })
  const breathe = createPace()
  let pages = 0
  for await (const [file, facts] of inOrder(files, factsOf)) {
    if (isOver()) return false
    if (facts.page?.isDocument) pages += 1
    for (const finding of checkFile({ ...file, ...facts }, isBroken)) findings.add(finding)
    await breathe()
  }
  for (const finding of checkSite(start, has, pages)) findings.add(finding)
  return true
}

/** Reads a few files at a time and keeps no more of them. */
async function* inOrder(
  files: readonly ManifestEntry[],
  factsOf: ReadFacts,
): AsyncGenerator<readonly [ManifestEntry, BlobFacts]> {
  const reading: Promise<readonly [ManifestEntry, BlobFacts]>[] = []
  for (const file of files) {
    const next = factsOf(file).then((facts) => [file, facts] as const)
    // it is awaited after those before it
    next.catch(() => undefined)
    reading.push(next)
    const first = reading.length > readAhead && reading.shift()
    if (first) yield await first
  }
  for (const last of reading) yield await last
}

/** False when the time is over first; what still runs then ends by itself. */
async function endWithin(limitMs: number, work: Promise<boolean>): Promise<boolean> {
  const timer = new AbortController()
  const late = pause(limitMs, false, { signal: timer.signal }).catch(() => false)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
    work.catch(() => undefined)
  }
}
