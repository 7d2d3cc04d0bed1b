import { z } from 'zod'
import {
  maxAccessEmails,
  maxEmailLabelLength,
  maxRawEmailsLength,
  readEmail,
  sortEmails,
  splitEmails,
  storedForm,
} from '../../core/access-addresses.ts'
import { invalid, unprocessable } from '../../core/errors.ts'
import {
  addEmail,
  addEmails,
  countEmails,
  listForeignAttempts,
  readEmails,
  removeEmail,
  removeEmails,
  setEmailLabel,
} from '../../services/access/emails.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { AccessEmail, AccessEmails, AddedEmails, attemptView, emailView } from '../views/access-emails.ts'
import { Ok, oneLine, site_id, text } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Access'
const email_id = z.uuid().describe('Id of the address.')
const maxEmailLength = 320
const email = text(maxEmailLength).describe('A plain address, such as ada@example.com; it is stored in lower case.')
const label = oneLine(text(maxEmailLabelLength), maxEmailLabelLength)
const emails = z.array(email).min(1).max(maxAccessEmails)

export const list_site_access_emails = operation({
  id: 'list_site_access_emails',
  title: 'List the addresses of a site',
  summary:
    'Lists the addresses that an emailed code lets into a site, each with its last 20 logins, and the last 100 attempts with other addresses.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/access/emails',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: AccessEmails,
  lists: [{ member: 'items', key: 'id' }],
  handler: async ({ db }, { site_id }) => ({
    items: Listing.of(readEmails(db, site_id), (rows) => rows.map(emailView)),
    foreign_attempts: (await listForeignAttempts(db, site_id)).map(attemptView),
    total: await countEmails(db, site_id),
    limit: maxAccessEmails,
  }),
})

export const add_site_access_email = operation({
  id: 'add_site_access_email',
  title: 'Add an address to a site',
  summary: 'Lists an address: while the site is closed with emailed codes, a code lets it in.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/emails',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id, email, label: label.optional().describe('Who this is.') }),
  example: { email: 'ada@example.com', label: 'Ada' },
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: AccessEmail,
  errors: [400, 402, 409],
  handler: async (ctx, { email: given, label }, site) => {
    const address = readEmail(given)
    if (address === undefined) throw unprocessable('email must be one plain address, such as ada@example.com')
    return emailView(await addEmail(ctx, site, { email: address, label: label || null }))
  },
})

async function addAll(ctx: Context, site: SiteRow, texts: readonly string[]): Promise<z.input<typeof AddedEmails>> {
  const sorted = sortEmails(texts)
  const { added, total } = await addEmails(ctx, site, sorted.emails)
  const duplicates = sorted.emails.length - added + sorted.repeated
  return { added, duplicates, invalid: [...sorted.invalid], total }
}

export const import_site_access_emails = operation({
  id: 'import_site_access_emails',
  title: 'Add the addresses of a text',
  summary:
    'Lists the addresses of a text, which are separated by lines, commas or semicolons. Those that are listed already stay as they are, and what is not an address is left out and answered.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/emails/bulk',
  scope: 'editor',
  input: z.object({ site_id, raw: text(maxRawEmailsLength).describe('At most 256 KB.') }),
  example: { raw: 'ada@example.com, grace@example.com\nalan@example.com' },
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: AddedEmails,
  errors: [400, 402, 409],
  handler: (ctx, { raw }, site) => {
    const texts = splitEmails(raw)
    if (texts.length === 0) throw invalid('raw has no address; separate addresses by lines, commas or semicolons')
    return addAll(ctx, site, texts)
  },
})

export const add_site_access_emails = operation({
  id: 'add_site_access_emails',
  title: 'Add addresses to a site',
  summary:
    'Lists addresses. Those that are listed already stay as they are, and what is not an address is left out and answered.',
  tag,
  tool: {},
  scope: 'editor',
  input: z.object({ site_id, emails }),
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: AddedEmails,
  errors: [402, 409],
  handler: (ctx, { emails }, site) => addAll(ctx, site, emails),
})

export const set_site_access_email_label = operation({
  id: 'set_site_access_email_label',
  title: 'Label an address of a site',
  summary: 'Sets the label of an address; an empty one removes it.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}/access/emails/{email_id}',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, email_id, label }),
  example: { label: 'Ada, of the board' },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: AccessEmail,
  errors: [400, 409],
  handler: async (ctx, { email_id, label }, site) => emailView(await setEmailLabel(ctx, site, email_id, label || null)),
})

export const remove_site_access_email = operation({
  id: 'remove_site_access_email',
  title: 'Remove an address from a site',
  summary: 'Removes an address with its logins. Its access ends at once, also where it is logged in.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/access/emails/{email_id}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id, email_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Ok,
  errors: [409],
  handler: async (ctx, { email_id }, site) => {
    await removeEmail(ctx, site, email_id)
    return { ok: true as const }
  },
})

export const remove_site_access_emails = operation({
  id: 'remove_site_access_emails',
  title: 'Remove addresses from a site',
  summary:
    'Removes the named addresses, or all of them, with their logins. Their access ends at once. Addresses that are not listed are ignored.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/emails/remove',
  tool: { confirm: true },
  scope: 'editor',
  input: z.object({
    site_id,
    emails: emails.optional(),
    all: z.literal(true).optional().describe('Instead of emails.'),
    confirm: z.boolean().default(false).describe('Must be true.'),
  }),
  example: { emails: ['ada@example.com'], confirm: true },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: z
    .object({ removed: z.int(), total: z.int().describe('How many addresses the site has now.') })
    .meta({ id: 'RemovedEmails' }),
  errors: [400, 409],
  handler: (ctx, { emails, all, confirm }, site) => {
    if ((emails === undefined) === (all === undefined)) throw unprocessable('give either emails or all: true')
    if (!confirm) {
      throw invalid('the addresses would be removed with their logins; repeat with confirm: true', 'confirmation_required')
    }
    return removeEmails(ctx, site, emails === undefined ? 'all' : emails.map(storedForm))
  },
})
