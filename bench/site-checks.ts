import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ManifestEntry } from '../core/manifest.ts'
import { openDiskCas } from '../infra/cas/disk.ts'
import { openFactsReader } from '../services/checks/facts-reader.ts'
import { createSiteChecks } from '../services/checks/find-recommendations.ts'
import { median } from './statistics.ts'

// What looking a site of 2,000 pages with 20 links each through costs: with an empty memory, and after one page has changed.
// Processor time as well, because it does not depend on what else runs.
//   npm run bench site-checks

const pages = 2000
const links = 20
const runs = 15
const budgetMs = 60_000
const payer = 'a project'

const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
try {
  const cas = await openDiskCas(dir)
  const put = async (path: string, text: string): Promise<ManifestEntry> => ({ path, ...(await cas.put(Buffer.from(text))) })
  const files: ManifestEntry[] = []
  for (let i = 0; i < pages; i++) files.push(await put(i === 0 ? 'index.html' : `posts/${i}/index.html`, page(i, '')))

  await using reader = openFactsReader()
  const cold: Cost[] = []
  const warm: Cost[] = []
  for (let run = 0; run < runs; run++) {
    const checks = createSiteChecks(cas, reader)
    cold.push(await timed(() => checks.findRecommendations(files, { payer, budgetMs })))
    const changed = files.with(1000, await put('posts/1000/index.html', page(1000, `run ${run}`)))
    warm.push(await timed(() => checks.findRecommendations(changed, { payer, budgetMs })))
  }
  print('cold', cold)
  print('one of 2,000 changed', warm)
} finally {
  await rm(dir, { recursive: true, force: true })
}

/** About 4 KB, as generators write them; every link is another one, half of them relative. */
function page(index: number, text: string): string {
  const anchors = Array.from({ length: links }, (_, i) => {
    const target = (index * 7 + i * 13) % pages
    return `<li><a class="card" href="${i % 2 ? `../${target}/` : `/posts/${target}/`}">Post number ${target}</a></li>`
  })
  const prose = '<p>What grows along the river, and what the water leaves behind when it goes.</p>'.repeat(20)
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Post ${index}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="description" content="Post ${index}">
<link rel="icon" href="data:,"></head><body><ul>${anchors.join('\n')}</ul>${prose}${text}</body></html>`
}

interface Cost {
  readonly wallMs: number
  readonly cpuMs: number
}

async function timed(work: () => Promise<{ complete: boolean }>): Promise<Cost> {
  const startedAt = performance.now()
  const before = process.cpuUsage()
  const { complete } = await work()
  if (!complete) throw new Error('the budget was too small')
  const { user, system } = process.cpuUsage(before)
  return { wallMs: performance.now() - startedAt, cpuMs: (user + system) / 1000 }
}

function print(what: string, costs: Cost[]): void {
  const shown = (samples: number[]) => median(samples).toFixed(1).padStart(7)
  const wall = shown(costs.map((cost) => cost.wallMs))
  const cpu = shown(costs.map((cost) => cost.cpuMs))
  process.stdout.write(`${what.padEnd(22)} p50 ${wall} ms   cpu ${cpu} ms   of ${costs.length}\n`)
}
