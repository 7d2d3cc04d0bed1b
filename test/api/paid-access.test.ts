import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
let site: { id: string }
beforeAll(async () => {
  const yookassa = { PLINTH_YOOKASSA_SHOP_ID: '123456', PLINTH_YOOKASSA_SECRET_KEY: 'test_key' }
  w = await world({ worker: false, env: { PLINTH_PAYMENTS_TEST: 'true', ...yookassa } })
  owner = await w.project()
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeSite(w, owner)
})

const price = { amount_minor: 49_900, currency: 'RUB', period_days: 30, provider: 'yookassa' }
const set = (json: object, { key } = owner) => w.call(`POST /api/v1/sites/${site.id}/access/paid-mode`, { key, json })
const read = async () => (await w.call(`GET /api/v1/sites/${site.id}/access`, { key: owner.key })).body
const epoch = async () =>
  (await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', site.id).executeTakeFirstOrThrow()).epoch

describe('E22: set_paid_access', () => {
  test('W04: closes the site, and shows the price', async () => {
    expect((await read()).price).toBe(null)
    const { status, body } = await set(price)
    expect([status, body]).toEqual([200, expect.objectContaining({ closed: true, mode: 'paid', price })])
    expect(await read()).toEqual(body)
  })

  test('changes the price without signing anybody out', async () => {
    await set(price)
    const before = await epoch()
    const changed = { ...price, amount_minor: 100, currency: 'JPY', period_days: null, provider: 'test' }
    expect((await set(changed)).body.price).toEqual(changed)
    expect(await epoch()).toBe(before)
  })

  test('E18: a switch from another mode signs out everybody', async () => {
    await w.call(`POST /api/v1/sites/${site.id}/access/email-mode`, { key: owner.key, json: {} })
    const before = await epoch()
    await set(price)
    expect(await epoch()).not.toBe(before)
  })

  test.each([
    ['a price of nothing', { amount_minor: 0 }],
    ['half a unit', { amount_minor: 0.5 }],
    ['a price beyond the limit', { amount_minor: 1_000_000_001 }],
    ['a currency in lower case', { currency: 'rub' }],
    ['a currency that is none', { currency: 'XXX' }],
    ['a currency that the provider does not take', { currency: 'USD' }],
    ['a period of nothing', { period_days: 0 }],
    ['a period beyond the limit', { period_days: 3651 }],
    ['no period', { period_days: undefined }],
    ['another provider', { provider: 'paypal' }],
  ])('refuses %s with 422', async (_what, change) => {
    expect((await set({ ...price, ...change })).status).toBe(422)
    expect((await read()).closed).toBe(false)
  })

  test('E37: refuses a provider that the operator has not configured, and says which there are', async () => {
    const { status, headers, body } = await set({ ...price, provider: 'stripe' })
    expect([status, headers.get('plinth-error')]).toEqual([409, 'provider_missing'])
    expect(body.message).toContain('manual or test or yookassa')
  })

  test('needs the Pro plan', async () => {
    const poor = await w.project('start')
    site = await makeSite(w, poor)
    const { status, headers } = await set(price, poor)
    expect([status, headers.get('plinth-error')]).toEqual([402, 'plan_paid_access'])
  })

  test('of another project is as absent as a site that never was', async () => {
    const stranger = await w.project()
    const foreign = await set(price, stranger)
    site = { id: '00000000-0000-7000-8000-000000000000' }
    const absent = await set(price, stranger)
    expect([foreign.status, foreign.body]).toEqual([404, absent.body])
  })
})
