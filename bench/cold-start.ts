import { writeFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { apiOnSocket } from '../infra/local/api-client.ts'
import { caller, waitActive } from './client.ts'
import { withStack } from './stack.ts'

// How long a start takes until everything is ready, and then a first build until it is served, with what the page cache holds and, as after
// a reboot, with an empty one. Needs root, because it drops the page cache of the whole machine.
//   npx node bench/cold-start.ts [--rounds 10]

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '10' } } })
const files = [
  { path: 'package.json', content: JSON.stringify({ name: 'bench', version: '1.0.0', scripts: { build: 'node build.cjs' } }) },
  {
    path: 'package-lock.json',
    content: JSON.stringify({ name: 'bench', version: '1.0.0', lockfileVersion: 3, packages: { '': { name: 'bench' } } }),
  },
  {
    path: 'build.cjs',
    content: `const fs = require('node:fs'); fs.mkdirSync('dist'); fs.writeFileSync('dist/index.html', 'built')`,
  },
]

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
    const { demo, config } = stack
    if (!demo?.site) throw new Error('there is no demo site')
    const answer = await apiOnSocket(config.sockets.api)(`POST /api/v1/sites/${demo.site.id}/deploy-files`, demo.key, { files })
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
    const { id } = answer.body as { id: string }
    const built = await waitActive(caller(stack, demo.key), id).then(
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
