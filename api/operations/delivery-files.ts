import { z } from 'zod'
import {
  imageTypes,
  maxDeliveryBodyBytes,
  maxDeliveryLabelLength,
  maxDeliveryNameLength,
  safeFileName,
} from '../../core/delivery-files.ts'
import { invalid } from '../../core/errors.ts'
import { addDeliveryFile, removeDeliveryFile, setDeliveryFileLabel } from '../../services/autoreply/delivery-files.ts'
import { operation } from '../operation.ts'
import { Autoreply } from '../views/autoreply.ts'
import { boundedText, oneLine, requireLength, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAutoreply } from './autoreply.ts'

const tag = 'Auto-reply'
const file_id = z.uuid().describe('Id of the file.')
const label = oneLine(boundedText(maxDeliveryLabelLength), maxDeliveryLabelLength)

export const add_autoreply_file = operation({
  id: 'add_autoreply_file',
  title: 'Add a file to the auto-reply',
  summary:
    'Adds a file that visitors who post a form can download with the link in their reply: a PDF, PNG, JPEG, GIF, WebP, zip or a text in UTF-8, at most three a site. The type is that of the bytes.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/autoreply/files',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    file_name: boundedText(maxDeliveryNameLength).describe(
      'The name under which visitors save it. A longer one is cut; characters that file names cannot have are replaced or left out.',
    ),
    label: label.default('').describe('What the page shows instead of the name.'),
  }),
  queryAliases: { file_name: 'name' },
  raw: {
    name: 'content',
    description: 'The bytes, from 1 to 50 MB.',
    mediaTypes: ['application/octet-stream', 'application/pdf', 'application/zip', 'text/plain', ...imageTypes],
    maxBytes: maxDeliveryBodyBytes,
  },
  load: siteOfCaller,
  requires: 'autoreply',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [400, 402, 409, 413],
  handler: async (ctx, { file_name, label, upload }, site) => {
    requireLength('label', label, maxDeliveryLabelLength)
    const name = safeFileName(file_name)
    if (name === '') throw invalid('the name of the file is empty; choose one')
    const project = { id: ctx.caller.project_id, plan: ctx.caller.plan }
    await addDeliveryFile(ctx, project, site, { name, label: label || null, upload })
    return shownAutoreply(ctx, site)
  },
})

export const remove_autoreply_file = operation({
  id: 'remove_autoreply_file',
  title: 'Remove a file from the auto-reply',
  summary: 'Removes a file from the auto-reply. Links that were sent before no longer offer it.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/autoreply/files/{file_id}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id, file_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [409],
  handler: async (ctx, { file_id }, site) => {
    await removeDeliveryFile(ctx, site, file_id)
    return shownAutoreply(ctx, site)
  },
})

export const set_autoreply_file_label = operation({
  id: 'set_autoreply_file_label',
  title: 'Label a file of the auto-reply',
  summary: 'Sets what the page shows instead of the name of a file; an empty label shows the name.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/autoreply/files/{file_id}/label',
  scope: 'editor',
  input: z.object({ site_id, file_id, label }),
  example: { label: 'The guide, as a PDF' },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Autoreply,
  errors: [400, 409],
  handler: async (ctx, { file_id, label }, site) => {
    requireLength('label', label, maxDeliveryLabelLength)
    await setDeliveryFileLabel(ctx, site, file_id, label || null)
    return shownAutoreply(ctx, site)
  },
})
