import { writeFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { tarGz } from '../test/infra/archives.ts'
import { caller, waitActive } from './client.ts'
import { withStack } from './stack.ts'

// How long a start takes until everything is ready, and then a first build until it is served, with what the page cache holds and, as after
// a reboot, with an empty one. Needs root, because it drops the page cache of the whole machine.
//   npm run bench cold-start -- [--rounds 10]

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '10' } } })
const archive = tarGz([
  { name: 'package.json', data: JSON.stringify({ name: 'bench', version: '1.0.0', scripts: { build: 'node build.cjs' } }) },
  {
    name: 'package-lock.json',
    data: JSON.stringify({ name: 'bench', version: '1.0.0', lockfileVersion: 3, packages: { '': { name: 'bench' } } }),
  },
  {
    name: 'build.cjs',
    data: `const fs = require('node:fs'); fs.mkdirSync('dist'); fs.writeFileSync('dist/index.html', 'built')`,
  },
])

process.stdout.write('round   warm: ready    build     cold: ready    build\n')
let failures = 0
for (let round = 1; round <= Number(values.rounds); round++) {
  const warm = await measure()
  await writeFile('/proc/sys/vm/drop_caches', '3')
  const cold = await measure()
  process.stdout.write(`${String(round).padStart(5)} ${warm}      ${cold}\n`)
}
process.stdout.write(failures === 0 ? 'every start took builds\n' : `${failures} starts took no builds\n`)
process.exitCode = failures === 0 ? 0 : 1

async function measure(): Promise<string> {
  const startedAt = performance.now()
  let line = ''
  await withStack(async (stack) => {
    const readyAt = performance.now()
    const { demo } = stack
    if (!demo?.site) throw new Error('there is no demo site')
    const call = caller(stack, demo.key)
    const { id } = await call(`POST /api/v1/sites/${demo.site.id}/deploys`, { type: 'application/gzip', body: archive })
    const built = await waitActive(call, id).then(
      () => seconds(performance.now() - readyAt),
      (error: Error) => {
        failures += 1
        return error.message.slice(0, 60)
      },
    )
    line = `${seconds(readyAt - startedAt)} ${built}`
  })
  // what was stopped has written to the disk
  await pause(500)
  return line
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`.padStart(9)
}
