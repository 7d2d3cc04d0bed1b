import { basicOr } from './authorization.ts'
import { type Comments, htmlMarker, putComment } from './comment.ts'
import { commentOf, statusStates } from './github.ts'
import { idIn, requireId } from './json.ts'
import type { ForgeClient } from './reports.ts'
import type { Api } from './transport.ts'

const needs = { status: 'the permission write:repository', comment: 'the permission write:issue' }

/** Gitea and Forgejo, which cannot record deployments. */
export function giteaClient(repository: string, open: (headers: Record<string, string>) => Api, token: string): ForgeClient {
  const api = open({ authorization: basicOr('token', token) })
  const repo = `/repos/${repository.split('/').map(encodeURIComponent).join('/')}`
  return {
    forge: 'gitea',
    async setStatus({ commit, state, site, description, target_url }) {
      const body = { state: statusStates[state], target_url, description, context: `plinth/${site.name}` }
      await api({ method: 'POST', path: `${repo}/statuses/${commit}`, body, needs: needs.status })
    },
    recordDeployment: () => Promise.resolve(undefined),
    putComment: (report) => putComment(commentsOf(api, repo, report.number), report, htmlMarker(report.site_id)),
  }
}

function commentsOf(api: Api, repo: string, number: number): Comments {
  const path = `${repo}/issues/${number}/comments`
  return {
    // all of them are on one page
    async list(page) {
      const listed = page === 1 ? await api({ path, needs: needs.comment }) : undefined
      return Array.isArray(listed) ? listed.map(commentOf) : undefined
    },
    author: async () => idIn(await api({ path: '/user', needs: needs.comment }), 'id'),
    create: async (body) => requireId(await api({ method: 'POST', path, body: { body }, needs: needs.comment })),
    async edit(id, body) {
      await api({ method: 'PATCH', path: `${repo}/issues/comments/${id}`, body: { body }, needs: needs.comment })
    },
  }
}
