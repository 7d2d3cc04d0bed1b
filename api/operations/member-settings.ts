import { z } from 'zod'
import { isDocumentUrl, maxDocuments, maxDocumentTitleLength, maxDocumentUrlLength } from '../../core/documents.ts'
import { unprocessable } from '../../core/errors.ts'
import { consentModes, formStyles, maxNameLabelLength } from '../../core/members.ts'
import { closeSite } from '../../services/access/locks.ts'
import { setDocuments } from '../../services/members/documents.ts'
import {
  findSettings,
  requestConsent,
  type SettingsChange,
  setMemberSettings,
  writeSettings,
} from '../../services/members/settings.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { SiteAccess } from '../views/access.ts'
import { line, max_seats, oneLine, site_id, text } from '../views/fields.ts'
import { MembersAccess, settingsView } from '../views/members.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAccess } from './access.ts'

const tag = 'Access'

const settings = {
  moderation: z.boolean().optional().describe('Whether you approve every registration.'),
  ask_name: z.boolean().optional().describe('Whether a registration asks for a name.'),
  name_label: oneLine(text(maxNameLabelLength), maxNameLabelLength)
    .nullable()
    .optional()
    .describe('What the login page calls the name; null or an empty text for the usual word.'),
  consent_mode: z
    .enum(consentModes)
    .optional()
    .describe('notice tells members that they agree to the documents; checkbox makes them tick a box; none does neither.'),
  form_style: z.enum(formStyles).optional().describe('Whether the forms of the login page stand in a frame.'),
  max_seats,
}

/** An empty label is none. */
const changeOf = ({ name_label, ...given }: SettingsChange): SettingsChange => ({
  ...given,
  name_label: name_label === '' ? null : name_label,
})

const shownSettings = async (ctx: Context, site: SiteRow) => ({
  ...(await shownAccess(ctx, site)),
  settings: settingsView(await findSettings(ctx.db, site.id)),
})

const closing = { mode: 'members', sealed_password: null } as const

export const set_members_access = operation({
  id: 'set_members_access',
  title: 'Close a site to all but its members',
  summary:
    'Closes a site, or switches it, to members who register with their email address. A switch signs out everybody and lifts the limit of logins. The members stay when the site is closed in another way.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/members-mode',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  requires: 'members_access',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: MembersAccess,
  errors: [402, 409],
  handler: async (ctx, _input, site) => {
    await closeSite(ctx, site, closing)
    return shownSettings(ctx, site)
  },
})

export const set_site_members_access = operation({
  id: 'set_site_members_access',
  title: 'Close a site to all but its members',
  summary:
    'Closes a site, or switches it, to members who register with their email address, and sets what a registration asks for. What is left out stays. A switch signs out everybody and lifts the limit of logins.',
  tag,
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, ...settings }),
  load: siteOfCaller,
  requires: 'members_access',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: MembersAccess,
  errors: [402, 409],
  handler: async (ctx, { site_id: _id, ...given }, site) => {
    await closeSite(ctx, site, closing, (tx) => writeSettings(tx, site, changeOf(given)))
    return shownSettings(ctx, site)
  },
})

export const set_members_settings = operation({
  id: 'set_members_settings',
  title: 'Set what a registration asks for',
  summary: 'Sets what a site asks of its members, whether it is closed or not. What is left out stays.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}/members-settings',
  scope: 'editor',
  input: z.object({ site_id, ...settings }),
  example: { moderation: true, ask_name: true, name_label: 'Your name', consent_mode: 'checkbox', max_seats: 100 },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: MembersAccess,
  errors: [409],
  handler: async (ctx, { site_id: _id, ...given }, site) => {
    if (Object.values(given).every((value) => value === undefined)) {
      throw unprocessable(`give at least one of ${Object.keys(settings).join(', ')}`)
    }
    await setMemberSettings(ctx, site, changeOf(given))
    return shownSettings(ctx, site)
  },
})

export const request_reconsent = operation({
  id: 'request_reconsent',
  title: 'Ask members to consent again',
  summary: 'Asks all members to consent to the documents again, at their next visit. Until then they see nothing of the site.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/members/reconsent',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: z
    .object({
      ok: z.literal(true),
      members_affected: z.int().describe('How many active members are asked: none while consent_mode is none.'),
    })
    .meta({ id: 'Reconsent' }),
  errors: [409],
  handler: async (ctx, _input, site) => ({ ok: true as const, members_affected: await requestConsent(ctx, site) }),
})

const Document = z.object({
  title: line(maxDocumentTitleLength),
  url: z
    .string()
    .meta({ maxLength: maxDocumentUrlLength, pattern: '^https://' })
    .refine(isDocumentUrl, `must be an https address of at most ${maxDocumentUrlLength} characters, without a user name`),
})

export const set_site_documents = operation({
  id: 'set_site_documents',
  title: 'Set the documents of a site',
  summary:
    'Replaces the documents that the login page of a site shows and to which members consent. A document whose title and address stay keeps its id.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/documents',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    documents: z.array(Document).max(maxDocuments).describe('In the order in which they are shown; none removes them all.'),
    request_reconsent: z.boolean().default(false).describe('true asks all members to consent again.'),
  }),
  example: { documents: [{ title: 'Terms of use', url: 'https://example.com/terms' }] },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [409],
  handler: async (ctx, { documents, request_reconsent }, site) => {
    await setDocuments(ctx, site, documents, request_reconsent)
    return shownAccess(ctx, site)
  },
})
