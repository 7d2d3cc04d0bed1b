import { randomInt } from 'node:crypto'
import { z } from 'zod'
import {
  type ExpiryChange,
  makePassword,
  maxExpiryDays,
  maxPasswordLength,
  minPasswordLength,
  type PasswordLevel,
  passwordLevels,
} from '../../core/access.ts'
import { unprocessable } from '../../core/errors.ts'
import { closeSite, openSite, setExpiry, setOpens } from '../../services/access/locks.ts'
import { closeWithPassword, revealPassword } from '../../services/access/passwords.ts'
import { readAccess, requirePlanForAccess } from '../../services/access/state.ts'
import { readMembership } from '../../services/members/list.ts'
import { setSeats } from '../../services/members/settings.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { accessView, SiteAccess } from '../views/access.ts'
import { max_seats, oneLine, site_id, text } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Access'

/** The access to the site as it is now: every write of it returns this. */
export const shownAccess = async ({ db, caller, config, clock }: Context, site: SiteRow) =>
  accessView(config, caller.plan, site, await readAccess(db, site.id), await readMembership(db, site.id, clock()))

export const get_site_access = operation({
  id: 'get_site_access',
  title: 'Get the access to a site',
  summary: 'Gets what closes a site, when that ends, and how many visitors have logged in. The password is not in it.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/access',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: SiteAccess,
  handler: (ctx, _input, site) => shownAccess(ctx, site),
})

const password = oneLine(
  text(maxPasswordLength).refine(
    (given) => given.length >= minPasswordLength,
    `must have at least ${minPasswordLength} characters`,
  ),
  maxPasswordLength,
).meta({ minLength: minPasswordLength })

export const set_site_password = operation({
  id: 'set_site_password',
  title: 'Close a site with a password',
  summary:
    'Closes a site with a password, or changes the password, which signs out everybody. Give either a level, for a generated password, or a password.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/access',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    level: z
      .enum(Object.keys(passwordLevels) as PasswordLevel[])
      .optional()
      .describe('easy: 6 digits. medium: 10 characters. strong: 20 characters.'),
    password: password.optional().describe('Instead of a level.'),
  }),
  example: { level: 'medium' },
  load: siteOfCaller,
  requires: 'password_access',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: SiteAccess.extend({ password: z.string() }).meta({ id: 'ClosedSite' }),
  errors: [402, 409],
  handler: async (ctx, { level, password: own }, site) => {
    if ((level === undefined) === (own === undefined)) throw unprocessable('give either a level or a password')
    const chosen = level === undefined ? (own ?? '') : makePassword(level, randomInt)
    await closeWithPassword(ctx, site, chosen)
    return { ...(await shownAccess(ctx, site)), password: chosen }
  },
})

export const open_site_access = operation({
  id: 'open_site_access',
  title: 'Open a site to everybody',
  summary: 'Removes what closes a site, with its password, its end and its counter. The list of addresses stays.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/access',
  tool: { destructive: true, idempotent: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [409],
  handler: async (ctx, _input, site) => {
    await openSite(ctx, site)
    return shownAccess(ctx, site)
  },
})

export const reveal_site_password = operation({
  id: 'reveal_site_password',
  title: 'Show the password of a site',
  summary: 'Shows the password that opens a site.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/access/password',
  tool: { readOnly: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.object({ password: z.string() }).meta({ id: 'SitePassword' }),
  errors: [409],
  handler: async (ctx, _input, site) => ({ password: await revealPassword(ctx, site.id) }),
})

interface ExpiryInput {
  readonly days?: number | undefined
  readonly until?: string | undefined
  readonly clear?: true | undefined
}

/** @throws AppError `unprocessable` unless exactly one is given */
function expiryChange({ days, until, clear }: ExpiryInput): ExpiryChange {
  const given: ExpiryChange[] = []
  if (days !== undefined) given.push({ kind: 'days', days })
  if (until !== undefined) given.push({ kind: 'until', until: new Date(until) })
  if (clear !== undefined) given.push({ kind: 'clear' })
  const [change, another] = given
  if (!change || another) throw unprocessable('give exactly one of days, until and clear')
  return change
}

export const set_site_access_expiry = operation({
  id: 'set_site_access_expiry',
  title: 'Set the end of the access to a site',
  summary:
    'Sets when the access to a closed site ends: then nobody is let in, and every visitor who is logged in is signed out. Give exactly one of days, until and clear.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}/access/expiry',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    days: z.int().min(1).max(maxExpiryDays).optional().describe('Counts from the current end, or from now without one.'),
    until: z.iso
      .datetime({ offset: true })
      .max(40)
      .optional()
      .describe('An instant within ten years, such as 2030-01-31T18:00:00Z.'),
    clear: z.literal(true).optional().describe('Removes the end.'),
  }),
  example: { days: 30 },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [409],
  handler: async (ctx, input, site) => {
    await setExpiry(ctx, site, expiryChange(input))
    return shownAccess(ctx, site)
  },
})

export const set_site_access_opens = operation({
  id: 'set_site_access_opens',
  title: 'Limit the logins of a site',
  summary:
    'Limits how often visitors may log in to a closed site, or resets the counter. At the limit nobody new is let in; visitors who are logged in stay. Sites with members are limited by max_seats instead.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}/access/opens',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    max_opens: z.int().min(1).max(1_000_000_000).nullable().optional().describe('The limit; null removes it.'),
    max_seats,
    reset_counter: z.boolean().optional().describe('true counts from 0 again.'),
  }),
  example: { max_opens: 100 },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [409],
  handler: async (ctx, { max_opens, max_seats, reset_counter }, site) => {
    if (max_opens !== undefined && max_seats !== undefined)
      throw unprocessable('give max_seats for a site with members, else max_opens')
    if (max_opens === undefined && max_seats === undefined && reset_counter === undefined) {
      throw unprocessable('give max_opens, max_seats or reset_counter')
    }
    if (max_seats !== undefined) await setSeats(ctx, site, max_seats)
    if (max_opens !== undefined || reset_counter !== undefined) await setOpens(ctx, site, { max_opens, reset_counter })
    return shownAccess(ctx, site)
  },
})

export const set_site_email_access = operation({
  id: 'set_site_email_access',
  title: 'Close a site with emailed codes',
  summary:
    'Closes a site, or switches it to login by a code that is emailed to a listed address. A switch signs out everybody and deletes the password.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/email-mode',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [402, 409],
  handler: async (ctx, _input, site) => {
    requirePlanForAccess('email', ctx.caller.plan, site)
    await closeSite(ctx, site, { mode: 'email', sealed_password: null })
    return shownAccess(ctx, site)
  },
})
