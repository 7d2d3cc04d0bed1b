import { expect } from 'vitest'
import type { Site } from './platform.ts'
import { publishedSite, type Uses } from './secret-steps.ts'

export const gitToken = 'canary-7c1f0a-git-token'
const builtFiles = {
  'package.json': JSON.stringify({
    name: 'x',
    version: '1.0.0',
    scripts: { build: 'env; mkdir dist; echo x > dist/index.html' },
  }),
}

export interface Hooked extends Site {
  readonly secret: string
  readonly deployHook: string
}

/** A repository that needs a token, whose build shows its environment, with both kinds of hooks. */
export async function useRepository(uses: Uses): Promise<Hooked> {
  const { own, owner, canaries, vault, platform, call } = uses
  const site = await publishedSite(uses, 'git')
  const path = `/api/v1/sites/${site.id}`
  vault.repository('vault').pushFiles(builtFiles)
  const value = canaries.add('credential', 'variable of a build', 'canary 5d/41?f0+e1 of a build')
  await own(`PUT ${path}/env/TOKEN`, { value, secret: true, contexts: ['production'] })
  await own(`PUT ${path}/git`, { repo_url: `${vault.origin}/vault.git`, token: gitToken, branch: 'main' })
  const { secret } = await own(`POST ${path}/git/webhook`)
  canaries.add('credential', 'secret of the webhook of a forge', secret)
  const { url } = await own(`POST ${path}/git/deploy-hook`)
  const deployHook = new URL(url).pathname
  canaries.add('credential', 'deploy hook', deployHook.slice('/hooks/deploy/'.length))
  const ended = async (deploy: Promise<{ id: string }>) =>
    (await platform.reaches(owner, (await deploy).id, ['active', 'superseded', 'failed'])).status
  expect(await ended(own(`POST ${path}/git/deploy`))).toBe('active')
  const push = { ref: 'refs/heads/main' }
  expect((await call(`POST /hooks/git/${site.id}`, { headers: { 'x-svc-token': secret }, json: push })).status).toBe(200)
  await call(`POST /hooks/git/${site.id}`, { headers: { 'x-svc-token': `${secret}x` }, json: push })
  expect((await call(`POST ${deployHook}`)).status).toBe(200)
  await call(`POST ${deployHook}x`)
  await own(`PUT ${path}/git`, { repo_url: `${vault.origin}/vault.git`, token: `${gitToken}-wrong` })
  expect(await ended(own(`POST ${path}/git/deploy`))).toBe('failed')
  return { ...site, secret, deployHook }
}

/** A webhook whose receiver fails. */
export async function useWebhook({ own, canaries }: Uses, url: string): Promise<void> {
  const { secret } = await own('POST /api/v1/webhooks', { url, events: ['form.received', 'deploy.failed'] })
  canaries.add('credential', 'secret of a webhook', secret)
}
