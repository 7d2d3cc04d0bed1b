import { setTimeout as pause } from 'node:timers/promises'
import { judgeLinks } from '../../core/checks/links.ts'
import { collectFindings, type Findings, type Recommendation } from '../../core/checks/recommendation.ts'
import { checkFile, checkRule, checkSite } from '../../core/checks.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import type { CompiledRules } from '../../core/site-rules/compile.ts'
import { type PreparedRules, prepareRules } from '../../core/site-rules/prepare.ts'
import type { Cas, ObjectBatch } from '../../infra/cas/cas.ts'
import { readSiteRules } from '../../infra/cas/site-rules.ts'
import { bytesToRead, createBlobReader, tellsSomething } from './blob-facts.ts'
import type { FactsReader } from './facts-reader.ts'
import type { BlobFacts } from './facts-thread.ts'
import { createPace } from './pace.ts'

export interface CheckOptions {
  /** The project of the files; projects share the thread that reads them. */
  readonly payer: string
  readonly budgetMs: number
  readonly signal?: AbortSignal
  /** The batch that has the files while they are not in the storage yet. */
  readonly objects?: Pick<ObjectBatch, 'open'>
  /** `_redirects` and `_headers`, when the caller has compiled them. */
  readonly compiled?: CompiledRules
}

export interface CheckResult {
  readonly recommendations: Recommendation[]
  /** False when the budget was too small for all files. */
  readonly complete: boolean
}

export interface SiteChecks {
  /**
   * Checks a published set of files. Returns the findings so far when the budget ends.
   * @throws Error when the storage lacks a file
   */
  findRecommendations(files: readonly ManifestEntry[], options: CheckOptions): Promise<CheckResult>
}

type FileFacts = readonly [ManifestEntry, BlobFacts]
type ReadFacts = (files: readonly ManifestEntry[]) => Promise<FileFacts[]>

/** Files that are read together: with a call of the thread for each file, 2,000 small pages take 1.4 times the processor time. */
const batchFiles = 32
/** A batch takes the thread about 30 ms, for which others wait. */
const batchBytes = 1024 * 1024
const nothing: BlobFacts = {}

/** @param reader shared by the process; it must stay open while there are checks */
export function createSiteChecks(cas: Cas, reader: FactsReader): SiteChecks {
  const read = createBlobReader(reader)
  return {
    async findRecommendations(files, { payer, budgetMs, signal, objects = cas, compiled }) {
      const factsOf: ReadFacts = async (batch) => {
        const telling = batch.filter(tellsSomething)
        const facts = await read(telling, { objects, payer })
        const byFile = new Map(telling.map((file, i) => [file, facts[i] ?? nothing]))
        return batch.map((file) => [file, byFile.get(file) ?? nothing])
      }
      // no part of the budget, which the first check after a start could not keep otherwise
      await reader.started()
      const startedAt = performance.now()
      const isOver = () => signal?.aborted === true || performance.now() - startedAt >= budgetMs
      const findings = collectFindings()
      const judge = async () => {
        const { rules, faults } = compiled ?? (await readSiteRules(objects, files))
        for (const fault of faults) findings.add(checkRule(fault))
        return await judgeFiles({ files, rules: rules && prepareRules(rules) }, factsOf, findings, isOver)
      }
      // the caller waits no longer than its budget, even when the storage hangs
      const complete = await endWithin(budgetMs, judge())
      return { recommendations: findings.list(), complete }
    },
  }
}

/** Judges the files in order, so that the list is the same every time. False when the time ends before the last. */
async function judgeFiles(
  { files, rules }: { readonly files: readonly ManifestEntry[]; readonly rules: PreparedRules | undefined },
  factsOf: ReadFacts,
  findings: Findings,
  isOver: () => boolean,
): Promise<boolean> {
  const paths = new Set(files.map((file) => file.path))
  const has = (path: string) => paths.has(path)
  const startFile = files.find((file) => file.path === 'index.html')
  const start = startFile && (await factsOf([startFile]))[0]?.[1].page
  const isBroken = judgeLinks({ has, rules, routesInBrowser: start?.mayRoute ?? true })
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

/** Reads one batch ahead of the one that is judged, and keeps no more. */
async function* inOrder(files: readonly ManifestEntry[], factsOf: ReadFacts): AsyncGenerator<FileFacts> {
  let ahead: Promise<FileFacts[]> | undefined
  for (const batch of batchesOf(files)) {
    const current = ahead
    ahead = factsOf(batch)
    // it is awaited after the one before it
    ahead.catch(() => undefined)
    if (current) yield* await current
  }
  if (ahead) yield* await ahead
}

function* batchesOf(files: readonly ManifestEntry[]): Generator<ManifestEntry[]> {
  let batch: ManifestEntry[] = []
  let bytes = 0
  for (const file of files) {
    const more = tellsSomething(file) ? bytesToRead(file) : 0
    if (batch.length === batchFiles || (batch.length > 0 && bytes + more > batchBytes)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(file)
    bytes += more
  }
  if (batch.length > 0) yield batch
}

/** False when the time ends first; the work then ends by itself. */
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
