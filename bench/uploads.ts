import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { Stack } from '../infra/local/stack.ts'
import { withStack } from './stack.ts'

// The memory of the api while eight uploads of 50 MB arrive at once, through Caddy. Linux only.
//   npm run bench uploads

const atOnce = 8
const MB = 1024 * 1024
const uploadBytes = 50 * MB
const block = randomBytes(256 * 1024)
const letters = Buffer.alloc(256 * 1024, 'some text of a page that is not very interesting. ')

interface Body {
  readonly route: string
  readonly type: string
  /** Fills the body up to 50 MB after its head; the tail is a part of it. */
  readonly head: string | Buffer
  readonly filling: Buffer
  readonly tail?: string
}

await withStack(async (stack) => {
  const { demo } = stack
  if (!demo?.site) throw new Error('there is no demo site')
  const pid = await pidOfApi(stack)
  const site = `/api/v1/sites/${demo.site.id}`
  console.log(`before: ${await memory(pid, 'VmRSS')} MiB`)
  const kinds: [string, (i: number) => Body][] = [
    [
      'archives',
      (i) => ({
        route: `POST ${site}/deploys`,
        type: 'application/gzip',
        head: Buffer.from(`1f8b0800${i}0`, 'hex'),
        filling: block,
      }),
    ],
    ['blobs, binary', (i) => blob(`\0${i}`, block)],
    ['blobs, text', (i) => blob(`${i}`, letters)],
    [
      'deploy-files',
      (i) => ({
        route: `POST ${site}/deploy-files`,
        type: 'application/json',
        head: `{"files":[{"path":"index.html","content":"${i}`,
        filling: letters,
        tail: '"}]}',
      }),
    ],
  ]
  for (const [name, make] of kinds) {
    await writeFile(`/proc/${pid}/clear_refs`, '5')
    const startedAt = performance.now()
    const statuses = await Promise.all(Array.from({ length: atOnce }, (_, i) => send(stack, demo.key, make(i))))
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    const [peak, after] = [await memory(pid, 'VmHWM'), await memory(pid, 'VmRSS')]
    console.log(
      `${name.padEnd(14)} peak ${peak} MiB, after ${after} MiB, ${seconds} s, answers ${[...new Set(statuses)].join(' ')}`,
    )
  }
})

function blob(head: string, filling: Buffer): Body {
  const hash = createHash('sha256')
  for (const part of parts({ head, filling })) hash.update(part)
  return { route: `PUT /api/v1/blobs/${hash.digest('hex')}`, type: 'application/octet-stream', head, filling }
}

function* parts({ head, filling, tail = '' }: Pick<Body, 'head' | 'filling' | 'tail'>): Generator<Buffer> {
  yield Buffer.from(head)
  let left = uploadBytes - Buffer.byteLength(head) - tail.length
  for (; left > 0; left -= filling.length) yield filling.subarray(0, left)
  yield Buffer.from(tail)
}

async function send(stack: Stack, key: string, body: Body): Promise<number> {
  const [method, path] = body.route.split(' ')
  const headers = {
    host: new URL(stack.config.urls.base).host,
    authorization: `Bearer ${key}`,
    'content-type': body.type,
    'content-length': uploadBytes,
  }
  const outgoing = request({ host: '127.0.0.1', port: stack.config.http.port, method, path, headers })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  await pipeline(Readable.from(parts(body)), outgoing)
  const [response] = await answered
  const answer = await text(response)
  if (response.statusCode !== 200) console.log(answer.slice(0, 200))
  return response.statusCode ?? 0
}

async function pidOfApi(stack: Stack): Promise<number> {
  const record = JSON.parse(await readFile(join(stack.config.dataDir, 'run', 'api.json'), 'utf8')) as { pid: number }
  return record.pid
}

async function memory(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024)
}
