import type { Operation } from '../../api/operation.ts'
import { restShape } from '../../api/rest.ts'
import type { CallOptions } from '../world.ts'
import { type Input, rawBytesOf } from './operation-inputs.ts'

/** The call of an operation over REST, with the members of an input where its route wants them; undefined for one that is only a tool. */
export function restRequest(
  op: Operation,
  input: Input,
): { readonly request: string; readonly options: CallOptions } | undefined {
  const shape = restShape(op)
  if (!shape) return undefined
  const path = shape.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) => (name in input ? String(input[name]) : 'x'))
  const given = shape.queryNames.filter((name) => input[shape.memberOf(name)] !== undefined)
  const query = new URLSearchParams(given.map((name): [string, string] => [name, String(input[shape.memberOf(name)])]))
  // the answer, not the stream
  if (op.streamsByDefault) query.set('follow', 'false')
  const json = shape.bodyNames.length > 0 ? { json: Object.fromEntries(shape.bodyNames.map((name) => [name, input[name]])) } : {}
  const raw = op.raw ? { bytes: rawBytesOf(op), type: op.raw.mediaTypes[0] ?? '' } : {}
  return { request: `${shape.method} ${path}${query.size > 0 ? `?${query.toString()}` : ''}`, options: { ...json, ...raw } }
}
