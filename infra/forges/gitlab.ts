import { bearer } from './authorization.ts'
import { type Comments, htmlMarker, putComment } from './comment.ts'
import { idIn, requireId, text } from './json.ts'
import type { DeploymentReport, ForgeClient, StatusReport } from './reports.ts'
import { type Api, ForgeError } from './transport.ts'

const needs = 'the scope api and at least the role Developer'

export function gitlabClient(repository: string, open: (headers: Record<string, string>) => Api, token: string): ForgeClient {
  const api = open({ authorization: bearer(token) })
  const project = `/projects/${encodeURIComponent(repository)}`
  return {
    forge: 'gitlab',
    setStatus: (report) => setStatus(api, project, report),
    recordDeployment: (report) => recordDeployment(api, project, report),
    putComment: (report) => putComment(commentsOf(api, project, report.number), report, htmlMarker(report.site_id)),
  }
}

const statusStates = { pending: 'pending', success: 'success', failure: 'failed', cancelled: 'canceled' } as const
const deploymentStates = {
  pending: 'running',
  success: 'success',
  failure: 'failed',
  cancelled: 'canceled',
  overtaken: 'canceled',
} as const

async function setStatus(api: Api, project: string, report: StatusReport): Promise<void> {
  const { commit, ref, site, description, target_url } = report
  const state = statusStates[report.state]
  const body = { state, ref, name: `plinth/${site.name}`, description, target_url }
  await ignoreRepetition(state, () => api({ method: 'POST', path: `${project}/statuses/${commit}`, body, needs }))
}

/** Ignores that GitLab refuses to set the same state again. */
async function ignoreRepetition(state: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await call()
  } catch (error) {
    const [, from] = (error instanceof ForgeError && /cannot transition .{0,200}from :(\w+)/i.exec(error.message)) || []
    const isRepetition = from === state || (state === 'pending' && from === 'running')
    if (!isRepetition) throw error
  }
}

async function recordDeployment(api: Api, project: string, report: DeploymentReport): Promise<string | undefined> {
  if (report.state === 'inactive') return stopEnvironment(api, project, report.environment)
  // the latest success of an environment counts there
  if (report.state === 'replaced') return report.known_id
  const status = deploymentStates[report.state]
  const known = report.known_id ?? (await findPending(api, project, report))
  const { environment, commit: sha, ref } = report
  if (known === undefined) {
    const body = { environment, sha, ref, tag: false, status }
    const made = await api({ method: 'POST', path: `${project}/deployments`, body, needs })
    await linkEnvironment(api, project, report, idIn(made, 'environment', 'id'))
    return requireId(made)
  }
  await ignoreRepetition(status, () => api({ method: 'PUT', path: `${project}/deployments/${known}`, body: { status }, needs }))
  return known
}

/** Finds the deployment of this commit by an earlier try. */
async function findPending(api: Api, project: string, { environment, commit }: DeploymentReport): Promise<string | undefined> {
  const query = new URLSearchParams({ environment, status: 'running', order_by: 'id', sort: 'desc', per_page: '20' }).toString()
  const listed = await api({ path: `${project}/deployments?${query}`, needs })
  return idIn(Array.isArray(listed) ? listed.find((one) => text(one, 'sha') === commit) : undefined, 'id')
}

async function linkEnvironment(api: Api, project: string, { site_url }: DeploymentReport, id: string | undefined) {
  if (id === undefined) return
  await api({ method: 'PUT', path: `${project}/environments/${id}`, body: { external_url: site_url }, needs })
}

async function stopEnvironment(api: Api, project: string, name: string): Promise<undefined> {
  const listed = await api({ path: `${project}/environments?name=${encodeURIComponent(name)}`, needs })
  const id = idIn(Array.isArray(listed) ? listed[0] : undefined, 'id')
  if (id !== undefined) await api({ method: 'POST', path: `${project}/environments/${id}/stop`, body: {}, needs })
}

function commentsOf(api: Api, project: string, number: number): Comments {
  const path = `${project}/merge_requests/${number}/notes`
  return {
    async list(page) {
      const listed = await api({ path: `${path}?sort=asc&order_by=created_at&per_page=100&page=${page}`, needs })
      return Array.isArray(listed) && listed.length > 0 ? listed.map(noteOf) : undefined
    },
    author: async () => idIn(await api({ path: '/user', needs }), 'id'),
    create: async (body) => requireId(await api({ method: 'POST', path, body: { body }, needs })),
    async edit(id, body) {
      await api({ method: 'PUT', path: `${path}/${id}`, body: { body }, needs })
    },
  }
}

const noteOf = (note: unknown) => ({ id: requireId(note), author: idIn(note, 'author', 'id'), body: text(note, 'body') ?? '' })
