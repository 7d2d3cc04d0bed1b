import type { Selectable } from 'kysely'
import { checkoutPeriodMs, type PaymentStatus } from '../../core/payments.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import { findId, membersOf, type PaymentProvider, parseCallback } from '../../infra/payments/provider.ts'
import type { Services } from '../services.ts'

export type TestPayment = Selectable<DB['test_payments']>

/** The path of the page with the buttons, below the base address. */
export const testPaymentPath = (id: string) => `/payments/test/${id}`

/** The provider for trying out: its payments are rows of ours, and everybody can pay them. It is used as the others are. */
export const testProvider = ({ db, clock }: Pick<Services, 'db' | 'clock'>, baseUrl: string): PaymentProvider => ({
  async createCheckout({ idempotency_key: id, amount_minor, currency, description, return_url, metadata }) {
    const payment = { id, status: 'open', amount_minor, currency, description, return_url, created_at: clock() } as const
    await db
      .insertInto('test_payments')
      .values({ ...payment, metadata: jsonb<unknown>(metadata) })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute()
    return { external_id: id, checkout_url: baseUrl + testPaymentPath(id) }
  },
  async getStatus(external_id) {
    const payment = await findTestPayment(db, external_id)
    return payment && statusOf(payment, clock())
  },
  parseWebhook(_headers, raw) {
    const external_id = findId(parseCallback(raw).id)
    return external_id === undefined ? {} : { external_id }
  },
})

function statusOf({ status, created_at, amount_minor, currency, metadata }: TestPayment, now: Date): PaymentStatus {
  const isOver = status === 'open' && now.getTime() - created_at.getTime() > checkoutPeriodMs
  const { checkout_id, site_id } = membersOf(metadata)
  const named = { checkout_id: findId(checkout_id), site_id: findId(site_id) }
  return { status: isOver ? 'expired' : status, amount_minor, currency, ...named }
}

export async function findTestPayment(db: Db, id: string): Promise<TestPayment | undefined> {
  if (!isUuid(id)) return undefined
  return await db.selectFrom('test_payments').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Pays an open payment, or declines it; another one stays as it is. */
export async function decideTestPayment({ db, log }: Pick<Services, 'db' | 'log'>, id: string, status: 'paid' | 'expired') {
  const decided = await db
    .updateTable('test_payments')
    .set({ status })
    .where('id', '=', id)
    .where('status', '=', 'open')
    .returning('id')
    .executeTakeFirst()
  if (decided) log.info({ checkout_id: id, status }, 'test payment decided')
}
