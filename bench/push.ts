import { createHmac, randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Stack } from '../infra/local/stack.ts'
import { type GitServer, startGitServer } from '../test/infra/git-server.ts'
import { agent, type Call, caller, json, print, waitActive, waitServed } from './client.ts'
import { withStack } from './stack.ts'

// How long a push takes until visitors see it, through the real processes and Caddy: from the signed webhook to the first visit that
// shows the new page. The repository lies on a smart HTTP server of this machine.
//   npm run bench push

const fileCount = 200
const runs = 20
const warmUps = 3
const pushesAtOnce = 10
/** Between two visits: more of them would take the processors from what is measured. */
const pauseMs = 10
const steps = ['answer', 'fetched, begun', 'built', 'active', 'served'] as const

const page = (title: string) => `<!doctype html><title>${title}</title>`

await using server = await startGitServer()
await withStack(
  async (stack) => {
    const site = await connect(stack, server)
    await pushOneByOne(stack, site)
    await pushTenInASecond(stack, site)
    agent.destroy()
  },
  { PLINTH_ALLOW_PRIVATE_GIT: 'true' },
)

type Connected = Awaited<ReturnType<typeof connect>>

async function connect(stack: Stack, { origin, repository }: GitServer) {
  const { demo } = stack
  if (!demo?.site) throw new Error('there is no demo site')
  const call = caller(stack, demo.key)
  const { id } = demo.site
  const { dir, pushFiles } = repository('site')
  await call(`PUT /api/v1/sites/${id}/git`, json({ repo_url: `${origin}/site.git` }))
  const { secret } = await call(`POST /api/v1/sites/${id}/git/webhook`)
  const files = Object.fromEntries(
    Array.from({ length: fileCount - 1 }, (_, i) => [`assets/${i % 20}/file-${i}.txt`, `the content of file ${i}\n`.repeat(50)]),
  )
  return {
    id,
    call,
    dir,
    host: new URL(demo.site.url).host,
    /** A commit that changes one file. */
    push: (title: string) => pushFiles({ ...files, 'index.html': page(title) }, { message: title }),
    /** As Gitea tells of it. */
    tell: (commit: string) => deliver(call, id, secret, commit),
  }
}

async function deliver(call: Call, siteId: string, secret: string, commit: string) {
  const { type, body } = json({
    ref: 'refs/heads/main',
    after: commit,
    commits: [],
    head_commit: { id: commit, message: 'A page' },
  })
  const signature = createHmac('sha256', secret).update(body).digest('hex')
  const headers = { 'x-gitea-event': 'push', 'x-gitea-delivery': randomUUID(), 'x-gitea-signature': signature }
  return (await call(`POST /hooks/git/${siteId}`, { type, body, headers })) as { deploy_id?: string; skipped?: string }
}

async function pushOneByOne(stack: Stack, { call, host, push, tell }: Connected): Promise<void> {
  const samples = Object.fromEntries(steps.map((step): [string, number[]] => [step, []]))
  for (let run = -warmUps; run < runs; run++) {
    const commit = push(`run ${run}`)
    // like usual pushes: the process for the next fetch has been started before
    await pause(2500)
    const startedAt = Date.now()
    const served = waitServed(stack, host, page(`run ${run}`), pauseMs).then(() => Date.now())
    const { deploy_id } = await tell(commit)
    const answeredAt = Date.now()
    const servedAt = await served
    const deploy = await waitActive(call, deploy_id ?? '')
    const [begunAt = 0, finishedAt = 0, activeAt = 0] = [deploy.started_at, deploy.finished_at, deploy.activated_at].map(
      Date.parse,
    )
    const times = { answer: answeredAt, 'fetched, begun': begunAt, built: finishedAt, active: activeAt, served: servedAt }
    if (run >= 0) for (const [step, at] of Object.entries(times)) samples[step]?.push(at - startedAt)
  }
  print(`a push that changes one of ${fileCount} files; since its webhook`, samples)
}

async function pushTenInASecond(stack: Stack, { id, call, host, push, tell }: Connected): Promise<void> {
  const startedAt = performance.now()
  const answers = []
  for (let i = 0; i < pushesAtOnce; i++) {
    await pause(Math.max(0, (i * 1000) / pushesAtOnce - (performance.now() - startedAt)))
    answers.push(await tell(push(`push ${i}`)))
  }
  const pushed = performance.now() - startedAt
  await waitServed(stack, host, page(`push ${pushesAtOnce - 1}`), pauseMs)
  const served = performance.now() - startedAt
  const deploys = new Set(answers.map((answer) => answer.deploy_id))
  await Promise.all([...deploys].map((deployId) => waitActive(call, deployId ?? '')))
  const listed = await call(`GET /api/v1/sites/${id}/deploys?limit=${pushesAtOnce}`)
  const builds = listed.filter((deploy: { id: string }) => deploys.has(deploy.id))
  process.stdout.write(
    `${pushesAtOnce} pushes within ${pushed.toFixed(0)} ms: ${builds.length} builds; the last push was served ${(served - pushed).toFixed(0)} ms after its webhook\n`,
  )
}
