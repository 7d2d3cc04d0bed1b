import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { AppError, notFound } from '../../core/errors.ts'
import { escapeHtml } from '../../core/html.ts'
import { priceText } from '../../core/money.ts'
import { type PageLanguage, preferredLanguage } from '../../core/page-language.ts'
import type { Db } from '../../infra/db/database.ts'
import { pageKind } from '../../infra/web-page.ts'
import { takeCallback } from '../../services/payments/callbacks.ts'
import { decideTestPayment, findTestPayment, type TestPayment, testPaymentPath } from '../../services/payments/test-payments.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { receiveFields } from './access-request.ts'

const css = `
form{display:flex;flex-wrap:wrap;gap:1rem;margin:1.5rem 0 0}
button{min-height:3rem;padding:.5rem 1.5rem;border:1px solid var(--ink);border-radius:.5rem;background:none;color:var(--ink);font:inherit;cursor:pointer}
button:first-child{background:var(--ink);color:var(--paper)}
:focus-visible{outline:3px solid #0b57d0;outline-offset:2px}
`
const kind = pageKind({ css, policy: [], formAction: "'self'" })

const texts: Readonly<Record<PageLanguage, Record<'title' | 'hint' | 'pay' | 'decline' | 'paid' | 'over' | 'back', string>>> = {
  en: {
    title: 'Test payment',
    hint: 'This is the payment provider for trying out. No money is taken.',
    pay: 'Pay',
    decline: 'Decline',
    paid: 'The payment is paid.',
    over: 'The payment is over.',
    back: 'Back to the site',
  },
  ru: {
    title: 'Пробный платёж',
    hint: 'Это платёжный сервис для проверки. Деньги не списываются.',
    pay: 'Оплатить',
    decline: 'Отказаться',
    paid: 'Платёж оплачен.',
    over: 'Платёж завершён.',
    back: 'Вернуться на сайт',
  },
}

/** The page of the payment provider for trying out, at the base address: a real one has a page like it. */
export function testPaymentRoutes(deps: Deps): Router {
  const router = new Router({ strict: true, sensitive: true })
  const path = testPaymentPath(':payment_id')
  const find = async (db: Db, koa: Koa) => {
    const payment = deps.config.payments.test ? await findTestPayment(db, koa.params.payment_id ?? '') : undefined
    if (!payment) throw notFound('there is no test payment at this address')
    return payment
  }
  router.get(path, async (koa) => {
    const address = { kind: 'address', id: clientNetwork(koa.req) } as const
    using _caller = deps.admission.enter(address)
    show(koa, await find(deps.admission.databaseOf(address), koa))
  })
  router.post(path, async (koa) => {
    const address = { kind: 'address', id: clientNetwork(koa.req) } as const
    using caller = deps.admission.enter(address)
    const services = { ...deps, db: deps.admission.databaseOf(address) }
    if (koa.get('origin') !== deps.config.urls.base) throw new AppError('forbidden', 'the form was sent from another page')
    const { id } = await find(services.db, koa)
    const fields = await receiveFields(koa, caller)
    await decideTestPayment(services, id, fields.get('decision') === 'pay' ? 'paid' : 'expired')
    await takeCallback(services, 'test', { external_id: id })
    show(koa, await find(services.db, koa))
  })
  return router
}

function show(koa: Koa, { status, description, amount_minor, currency, return_url }: TestPayment): void {
  const lang = preferredLanguage(koa.get('accept-language'))
  const { title, hint, pay, decline, paid, over, back } = texts[lang]
  const price = `${description}: ${priceText({ amount_minor, currency }, lang)}`
  const main = [
    `<h1>${escapeHtml(title)}</h1>`,
    `<p>${escapeHtml(price)}</p>`,
    ...(status === 'open'
      ? [
          `<p>${escapeHtml(hint)}</p>`,
          '<form method="post">',
          `<button name="decision" value="pay">${escapeHtml(pay)}</button>`,
          `<button name="decision" value="decline">${escapeHtml(decline)}</button>`,
          '</form>',
        ]
      : [
          `<p>${escapeHtml(status === 'paid' ? paid : over)}</p>`,
          `<p><a href="${escapeHtml(return_url)}">${escapeHtml(back)}</a></p>`,
        ]),
  ]
  koa.type = 'text/html'
  koa.set('content-security-policy', kind.policy)
  // browsers send `Origin: null` with the form of a page without a referrer
  koa.set('referrer-policy', 'same-origin')
  if (status !== 'open') koa.set('refresh', `1; url=${return_url}`)
  koa.body = kind.html({ lang, title, main: main.join('\n') })
}
