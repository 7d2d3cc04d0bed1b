import { z } from 'zod'
import { maxLogoBytes } from '../../core/delivery-files.ts'
import { AppError, unprocessable } from '../../core/errors.ts'
import { setBrand } from '../../services/access/brand.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { decodeBase64 } from '../store-files.ts'
import { SiteAccess } from '../views/access.ts'
import { oneLine, site_id, text } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAccess } from './access.ts'

const maxTitleLength = 120
const maxDescriptionLength = 2000
const maxImageText = Math.ceil((maxLogoBytes * 4) / 3) + 4
const maxTexts = 64 * 1024

const image = z.string().meta({ maxLength: maxImageText }).nullable().optional()
const words = text(maxDescriptionLength).nullable().optional()

export const set_site_access_brand = operation({
  id: 'set_site_access_brand',
  title: 'Set how the login page looks',
  summary:
    'Sets the title, the text and the images of the page on which visitors of a closed site log in. What is left out stays; null erases a field. The site may be open: the page is shown once it is closed.',
  tag: 'Access',
  rest: 'PATCH /api/v1/sites/{site_id}/access/brand',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    title: oneLine(text(maxTitleLength), maxTitleLength).nullable().optional().describe('The heading of the page.'),
    description: words.describe('The text below the title. It is shown as text, with its lines.'),
    text: words.describe('Another name of description; give one of them.'),
    logo_base64: image.describe(
      'A PNG, JPEG, GIF or WebP image of at most 1 MB, in base64, which is made at most 512 pixels wide and high.',
    ),
    logo_framed: z.boolean().nullable().optional().describe('Whether the logo has a frame.'),
    logo_rounded: z.boolean().nullable().optional().describe('Whether the logo has round corners.'),
    favicon_mode: z
      .enum(['site', 'custom', 'none'])
      .nullable()
      .optional()
      .describe(
        'The icon of the page in the browser: site leaves it to the site, whose own icon browsers see after the login; custom is favicon_base64; none shows none.',
      ),
    favicon_base64: image.describe(
      'A PNG, JPEG, GIF or WebP image of at most 1 MB, in base64, which is made 64 pixels wide and high. Without favicon_mode, it is shown at once.',
    ),
  }),
  example: { title: 'Studio North', description: 'Drafts for our clients. Ask us for the password.', logo_rounded: true },
  maxBodyBytes: 2 * maxImageText + maxTexts,
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [400, 402, 409, 413],
  handler: async (ctx, given, site) => {
    const { title, logo_framed, logo_rounded, favicon_mode } = given
    const change = {
      title: title === '' ? null : title,
      description: descriptionOf(given),
      logo_framed: logo_framed === null ? false : logo_framed,
      logo_rounded: logo_rounded === null ? false : logo_rounded,
      favicon_mode: favicon_mode === null ? 'site' : favicon_mode,
    } as const
    const images = {
      logo: await imageOf(ctx, given.logo_base64, 'logo'),
      favicon: await imageOf(ctx, given.favicon_base64, 'icon'),
    }
    await setBrand(ctx, site, change, images)
    return shownAccess(ctx, site)
  },
})

/** @throws AppError `unprocessable` when both names are given */
function descriptionOf(given: { description?: string | null | undefined; text?: string | null | undefined }) {
  if (given.description !== undefined && given.text !== undefined) {
    throw unprocessable('text is another name of description; give one of them')
  }
  const said = given.description === undefined ? given.text : given.description
  return said === '' ? null : said
}

/** The small image; refused before anything is changed. */
async function imageOf(ctx: Context, base64: string | null | undefined, use: 'logo' | 'icon') {
  if (base64 === undefined || base64 === null) return base64
  const bytes = decodeBase64(base64, use === 'logo' ? 'logo_base64' : 'favicon_base64')
  if (bytes.length > maxLogoBytes) throw new AppError('too_large', `the ${use} is larger than 1 MB`)
  return await ctx.resizeLogo(ctx.caller.project_id, bytes, use)
}
