import { basicOr } from './authorization.ts'
import { type Comments, linkMarker, putComment } from './comment.ts'
import { field, idIn, list, requireId, text } from './json.ts'
import type { ForgeClient } from './reports.ts'
import type { Api } from './transport.ts'

const needs = { status: 'the permission to read repositories', comment: 'the permission to write pull requests' }
const states = { pending: 'INPROGRESS', success: 'SUCCESSFUL', failure: 'FAILED', cancelled: 'STOPPED' } as const

/** Bitbucket Cloud. Only its own pipelines can record deployments. */
export function bitbucketClient(repository: string, open: (headers: Record<string, string>) => Api, token: string): ForgeClient {
  const api = open({ authorization: basicOr('Bearer', token) })
  const repo = `/repositories/${repository.split('/').map(encodeURIComponent).join('/')}`
  return {
    forge: 'bitbucket',
    async setStatus({ commit, ref, state, site, description, target_url }) {
      const body = { key: site.id, state: states[state], name: `plinth/${site.name}`, url: target_url, description, refname: ref }
      await api({ method: 'POST', path: `${repo}/commit/${commit}/statuses/build`, body, needs: needs.status })
    },
    recordDeployment: () => Promise.resolve(undefined),
    putComment: (report) => putComment(commentsOf(api, repo, report.number), report, linkMarker(report.site_id)),
  }
}

function commentsOf(api: Api, repo: string, number: number): Comments {
  const path = `${repo}/pullrequests/${number}/comments`
  return {
    async list(page) {
      const listed = await api({ path: `${path}?pagelen=100&sort=created_on&page=${page}`, needs: needs.comment })
      const values = list(listed, 'values')
      return values.length === 0 ? undefined : values.filter((comment) => field(comment, 'deleted') !== true).map(commentOf)
    },
    author: async () => idIn(await api({ path: '/user', needs: needs.comment }), 'uuid'),
    create: async (body) =>
      requireId(await api({ method: 'POST', path, body: { content: { raw: body } }, needs: needs.comment })),
    async edit(id, body) {
      await api({ method: 'PUT', path: `${path}/${id}`, body: { content: { raw: body } }, needs: needs.comment })
    },
  }
}

const commentOf = (comment: unknown) => ({
  id: requireId(comment),
  author: idIn(comment, 'user', 'uuid'),
  body: text(comment, 'content', 'raw') ?? '',
})
