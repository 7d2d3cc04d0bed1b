import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

// `npm run bench`: lists the measurements. `npm run bench <name> -- [options]`: takes one. Each begins with how it measures and its options.

const benches = {
  edge: 'Requests a second of the edge, alone and behind Caddy, beside nginx, Caddy, sirv and bare Node on the same files.',
  handshakes: 'TLS handshakes with certificates that Caddy asks the edge for, beside those that it has loaded from files.',
  idle: 'The memory of an idle `npm start`, process by process, and the time until it is ready.',
  'cold-start': 'The time of a start and of a first build, with a warm and with an empty page cache; needs root.',
  'deploy-files': 'The time from sending ten small files until they are served.',
  manifest: 'The time to publish a site of 2,000 files of which one has changed.',
  push: 'The time from a push to a repository until it is served, and what becomes of ten pushes within a second.',
  build: 'A build on the farm, with and without kept packages, beside the bare npm commands.',
  uploads: 'The memory of the API while eight uploads of 50 MB arrive at once.',
  scale: 'What thousands of sites cost the edge in memory, at its start, and with a cold page cache.',
  forms: 'Form posts a second with a p99 of at most 50 ms, accepted and refused, and what a flood costs the others.',
  stats: 'What the statistics of a day take in PostgreSQL, before and after the roll-up, and how long a year of them is read.',
  fairness: 'How long a project waits for its builds when another has queued forty before.',
  answers: 'What large answers that a project reads cost another one, beside as many bytes in usual answers.',
  neighbours: 'What hostile builds in every slot cost visitors and callers of the API.',
  'site-checks': 'The processor time of the recommendations for a site of 2,000 pages.',
  'tool-call': 'What an MCP tool call costs beside the same call over REST.',
} as const satisfies Record<string, string>

const [name = '', ...options] = process.argv.slice(2)
if (Object.hasOwn(benches, name)) {
  const { status } = spawnSync(process.execPath, [join(import.meta.dirname, `${name}.ts`), ...options], { stdio: 'inherit' })
  process.exitCode = status ?? 1
} else {
  if (name !== '') console.error(`There is no measurement called ${name}.\n`)
  console.log('npm run bench <name> -- [options]\n')
  for (const [bench, about] of Object.entries(benches)) console.log(`  ${bench.padEnd(14)}${about}`)
  process.exitCode = name === '' ? 0 : 1
}
