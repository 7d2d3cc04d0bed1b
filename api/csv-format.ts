import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { unprocessable } from '../core/errors.ts'
import type { Operation } from './operation.ts'

export const csvType = 'text/csv'

/** The parameter that REST adds to the input of an operation whose result is also a file. */
export const formatParameters = {
  format: z.enum(['json', 'csv']).default('json').describe('csv sends the result as a file of comma-separated values.'),
}

/** The operation as the request wants it: with JSON, or with a file instead. @throws AppError `unprocessable` */
export function asFormatted(op: Operation, koa: Koa): Operation {
  const { csv } = op
  if (!csv || !wantsCsv(koa)) return op
  return {
    ...op,
    download: [csvType],
    handler: async (ctx, input, target) => {
      const { name, text } = await csv(ctx, input, target)
      return { type: `${csvType}; charset=utf-8`, name, batches: once(text) }
    },
  }
}

async function* once(text: string): AsyncGenerator<readonly string[]> {
  yield [text]
}

function wantsCsv(koa: Koa): boolean {
  const formats = new URLSearchParams(koa.querystring).getAll('format')
  if (formats.length > 1) throw unprocessable('format: give it once')
  const [format = 'json'] = formats
  if (format !== 'json' && format !== 'csv') throw unprocessable('format must be one of json, csv')
  return format === 'csv'
}
