import { afterAll, beforeAll, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type ClosedSite, makeClosedSite, password, post } from './closed-site.ts'

let w: World
let owner: TestProject
let site: ClosedSite
beforeAll(async () => {
  w = await world({ worker: false, env: { PLINTH_BASE_URL: 'https://plinth.example', PLINTH_PLATFORM_DOMAIN: 'sites.example' } })
  owner = await w.project('enterprise')
  site = await makeClosedSite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

async function addDomain(isSecured: boolean): Promise<string> {
  const domain = `${randomName()}.example`
  const at = new Date()
  const { id } = await w.db
    .insertInto('domains')
    .values({ project_id: owner.id, site_id: site.id, domain, verification_token: 'x', verified_at: at, created_at: at })
    .returning('id')
    .executeTakeFirstOrThrow()
  await w.db
    .insertInto('certificates')
    .values({ domain_id: id, name: domain, certificate: isSecured ? 'a chain' : null })
    .execute()
  return domain
}

const login = async (host: string, scheme: 'http' | 'https') => {
  const headers = { 'x-forwarded-proto': scheme }
  const { status, cookie } = await post(w, gatePaths.password, { password, to: '/' }, { host, headers })
  return [status, cookie?.split('=')[0]]
}

test('E36: a host that redirects to https takes no login over http', async () => {
  const secured = await addDomain(true)
  expect(await login(site.host, 'https')).toEqual([303, '__Host-svc_s'])
  expect(await login(site.host, 'http')).toEqual([404, undefined])
  expect(await login(secured, 'https')).toEqual([303, '__Host-svc_s'])
  expect(await login(secured, 'http')).toEqual([404, undefined])
})

test('E36: a custom domain without a certificate takes logins over http, with a cookie of its own', async () => {
  const plain = await addDomain(false)
  expect(await login(plain, 'http')).toEqual([303, 'svc_s'])
  expect(await login(plain, 'https')).toEqual([303, '__Host-svc_s'])
})

test('E36: without a proxy that says so, the scheme is that of the platform', async () => {
  const origin = `https://${site.host}`
  const { status, cookie } = await post(w, gatePaths.password, { password, to: '/' }, { host: site.host, origin })
  expect([status, cookie?.startsWith('__Host-svc_s=')]).toEqual([303, true])
  const other = await post(w, gatePaths.password, { password, to: '/' }, { host: site.host, origin: `http://${site.host}` })
  expect(other.status).toBe(403)
})
