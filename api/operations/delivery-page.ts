import { z } from 'zod'
import { imageTypes, maxLinkTtlDays, maxLogoBytes, maxPageTitleLength, maxUpsellTextLength } from '../../core/delivery-files.ts'
import { AppError, unprocessable } from '../../core/errors.ts'
import {
  type DeliveryPageChange,
  removePageLogo,
  requireDeliveryPage,
  setDeliveryPage,
  setPageLogo,
} from '../../services/autoreply/delivery-page.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Upload } from '../../services/storage/pending-upload.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { decodeBase64 } from '../store-files.ts'
import { Autoreply } from '../views/autoreply.ts'
import { boundedText, oneLine, requireLength, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAutoreply } from './autoreply.ts'

const tag = 'Auto-reply'

const page = {
  link_ttl_days: z
    .int()
    .min(1, `must be from 1 to ${maxLinkTtlDays}`)
    .max(maxLinkTtlDays, `must be from 1 to ${maxLinkTtlDays}`)
    .optional()
    .describe('How many days a link opens, from its email on.'),
  page_title: oneLine(boundedText(maxPageTitleLength), maxPageTitleLength)
    .nullable()
    .optional()
    .describe('The title of the page with the files, together with upsell_text; both empty for the usual title.'),
  upsell_text: boundedText(maxUpsellTextLength).nullable().optional().describe('The text below the title.'),
}
const framed = z.boolean().optional().describe('Whether the logo has a frame.')
const rounded = z.boolean().optional().describe('Whether the logo has round corners.')

type PageInput = Pick<DeliveryPageChange, 'link_ttl_days' | 'page_title' | 'upsell_text'>

/**
 * The title and the text, empty ones as null.
 * @throws AppError `unprocessable` for one of them without the other, `invalid` for longer ones
 */
function pageChange({ link_ttl_days, page_title, upsell_text }: PageInput): PageInput {
  requireLength('page_title', page_title ?? '', maxPageTitleLength)
  requireLength('upsell_text', upsell_text ?? '', maxUpsellTextLength)
  const isHalf = (page_title === undefined) !== (upsell_text === undefined) || !page_title !== !upsell_text
  if (isHalf) throw unprocessable('page_title and upsell_text belong together: give both, or both empty')
  if (page_title === undefined) return { link_ttl_days }
  return { link_ttl_days, page_title: page_title || null, upsell_text: upsell_text || null }
}

export const set_autoreply_design = operation({
  id: 'set_autoreply_design',
  title: 'Set the page of the files',
  summary: 'Sets how the page with the files of the auto-reply looks and how long its links open. What is left out stays.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/autoreply/delivery',
  scope: 'editor',
  input: z.object({ site_id, ...page, page_logo_framed: framed, page_logo_rounded: rounded }),
  example: { link_ttl_days: 14, page_title: 'Your guide', upsell_text: 'Thank you for writing. Here is what you asked for.' },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [400, 409],
  handler: async (ctx, { site_id: _id, page_logo_framed, page_logo_rounded, ...given }, site) => {
    await setDeliveryPage(ctx, site, { ...pageChange(given), page_logo_framed, page_logo_rounded })
    return shownAutoreply(ctx, site)
  },
})

const logoTooLarge = () => new AppError('too_large', 'the logo is larger than 1 MB')

/** @throws AppError `too_large` */
async function receiveImage({ stream, expectedBytes = 0 }: Upload): Promise<Buffer> {
  if (expectedBytes > maxLogoBytes) throw logoTooLarge()
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxLogoBytes) throw logoTooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

export const set_autoreply_page_logo = operation({
  id: 'set_autoreply_page_logo',
  title: 'Set the logo of the page of the files',
  summary:
    'Sets the logo of the page with the files: a PNG, JPEG, GIF or WebP image of at most 1 MB, which is made at most 512 pixels wide and high. The page needs a title and a text first.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/autoreply/page-logo',
  scope: 'editor',
  input: z.object({ site_id }),
  raw: {
    name: 'logo',
    description: 'The image, at most 1 MB.',
    mediaTypes: ['application/octet-stream', ...imageTypes],
    maxBytes: maxLogoBytes,
  },
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [400, 402, 409, 413],
  handler: async (ctx, { upload }, site) => {
    await requireDeliveryPage(ctx.db, site.id)
    await setPageLogo(ctx, site, await ctx.resizeLogo(ctx.caller.project_id, await receiveImage(upload)))
    return shownAutoreply(ctx, site)
  },
})

export const remove_autoreply_page_logo = operation({
  id: 'remove_autoreply_page_logo',
  title: 'Remove the logo of the page of the files',
  summary: 'Removes the logo of the page with the files.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/autoreply/page-logo',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [409],
  handler: async (ctx, _input, site) => {
    await removePageLogo(ctx, site)
    return shownAutoreply(ctx, site)
  },
})

export const set_autoreply_delivery = operation({
  id: 'set_autoreply_delivery',
  title: 'Set the page of the files with its logo',
  summary:
    'Sets how the page with the files of the auto-reply looks, how long its links open, and its logo. What is left out stays; null removes the logo.',
  tag,
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    ...page,
    logo_base64: z
      .string()
      .meta({ maxLength: Math.ceil((maxLogoBytes * 4) / 3) + 4 })
      .nullable()
      .optional()
      .describe('A PNG, JPEG, GIF or WebP image of at most 1 MB, in base64. Needs a title and a text.'),
    logo_framed: framed,
    logo_rounded: rounded,
  }),
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [400, 402, 409, 413],
  handler: async (ctx, { site_id: _id, logo_base64, logo_framed, logo_rounded, ...given }, site) => {
    const change = { ...pageChange(given), page_logo_framed: logo_framed, page_logo_rounded: logo_rounded }
    const logo = logo_base64 && (await logoOf(ctx, site, logo_base64, change))
    if (Object.values(change).some((member) => member !== undefined)) await setDeliveryPage(ctx, site, change)
    if (logo) await setPageLogo(ctx, site, logo)
    else if (logo_base64 === null) await removePageLogo(ctx, site)
    return shownAutoreply(ctx, site)
  },
})

/** The logo of a call, refused before anything is changed. */
async function logoOf(ctx: Context, site: SiteRow, base64: string, { page_title }: PageInput): Promise<Buffer> {
  const image = decodeBase64(base64, 'logo_base64')
  if (image.length > maxLogoBytes) throw logoTooLarge()
  if (!page_title) await requireDeliveryPage(ctx.db, site.id)
  return await ctx.resizeLogo(ctx.caller.project_id, image)
}
