import type { z } from 'zod'
import type { Feature } from '../core/plans.ts'
import type { Scope } from '../core/scopes.ts'
import type { OfSite } from '../services/sites/sites.ts'
import type { Upload } from '../services/storage/pending-upload.ts'
import type { Context } from './context.ts'
import type { ServerSentEvent } from './follow-logs.ts'
import type { LongTexts } from './long-texts.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A request body that is bytes, not JSON: the whole body in REST, `<name>_base64` in a tool. */
export interface RawInput {
  readonly name: string
  readonly description: string
  readonly mediaTypes: readonly string[]
  readonly maxBytes: number
}

/** What clients are told about a tool; what is absent is false. */
export interface ToolHints {
  readonly readOnly?: boolean
  readonly idempotent?: boolean
  readonly destructive?: boolean
  /** The tool takes `confirm` besides its input and refuses without `confirm: true`; it is destructive. REST does not ask. */
  readonly confirm?: boolean
}

/** What a stream of events ends with: its client leaves, or the server drains. */
export interface Following {
  readonly signal: AbortSignal
  /** The id of the last event that the client has; undefined for a new one. */
  readonly lastEventId: string | undefined
}

export type ErrorStatus = 400 | 402 | 409 | 413 | 429 | 503

/**
 * One operation of the platform as data. REST routes, the OpenAPI document and the tools are folds over a list of these;
 * `invoke.ts` enforces everything that is declared here.
 */
export interface Operation {
  /** The operationId, and the tool's name. */
  readonly id: string
  readonly title: string
  readonly summary: string
  readonly tag: string
  /** Method and path below the base address; `{name}` is a member of `input`. Absent for operations that only tools have. */
  readonly rest?: `${Method} /${string}`
  /** Absent for operations that only REST has. */
  readonly tool?: ToolHints
  readonly scope: Scope
  /** Flat; names as the tools have them. REST takes them from path, query and JSON body by name. */
  readonly input: z.ZodObject
  /** Members of `input` that REST takes from the query although the request has a body. */
  readonly query?: readonly string[]
  readonly raw?: RawInput
  /** A JSON body that REST accepts as it is, for the documents. */
  readonly example?: Readonly<Record<string, unknown>>
  /** How large a JSON body may be, when that is not the usual limit. */
  readonly maxBodyBytes?: number
  /**
   * For JSON bodies that may be too large for memory; large ones are processed two at a time in this process. Long strings of `longMembers`,
   * at any level, stay in a file: `texts` has them by the marks that stand for them.
   */
  readonly largeBody?: { readonly maxBytes: number; readonly longMembers: readonly string[] }
  readonly requires?: Feature
  readonly whenSuspended?: 'refuse'
  /** Its `load` answers a site, or what belongs to one. What a transaction changes is refused there too: the site may be trashed in the meantime. */
  readonly whenTrashed?: 'refuse'
  readonly output: z.ZodType
  /** Statuses it may answer besides those that every operation may. */
  readonly errors: readonly ErrorStatus[]
  /** Bodies of errors that are not only `{message}`, by their status. */
  readonly errorBodies?: Partial<Readonly<Record<ErrorStatus, z.ZodType>>>
  readonly load: (ctx: Context, input: never) => Promise<unknown>
  readonly handler: (ctx: Context, input: never, target: never) => Promise<unknown>
  /** The same as it happens: REST answers `follow=true`, and a request for `text/event-stream`, with these. Tools never follow. */
  readonly events?: (ctx: Context, input: never, target: never, following: Following) => AsyncIterable<ServerSentEvent>
}

interface Definition<Input extends z.ZodObject, Output extends z.ZodType, Target>
  extends Omit<Operation, 'input' | 'output' | 'load' | 'handler' | 'errors' | 'example' | 'events' | 'whenTrashed'> {
  readonly input: Input
  readonly output: Output
  readonly errors?: readonly ErrorStatus[]
  readonly whenTrashed?: Target extends OfSite ? 'refuse' : never
  readonly example?: Partial<z.input<Input>>
  /** Finds what the call is about; throws `not_found`, so that another project's ids look absent before any plan or state. */
  readonly load?: (ctx: Context, input: z.output<Input>) => Promise<Target>
  readonly handler: (
    ctx: Context,
    input: z.output<Input> & { readonly upload: Upload; readonly texts?: LongTexts },
    target: Target,
  ) => Promise<z.input<Output>>
  readonly events?: (ctx: Context, input: z.output<Input>, target: Target, following: Following) => AsyncIterable<ServerSentEvent>
}

/** Checks the types of one operation and forgets them, so that all operations fit one list. */
export function operation<Input extends z.ZodObject, Output extends z.ZodType, Target = undefined>(
  definition: Definition<Input, Output, Target>,
): Operation {
  return { errors: [], load: async () => undefined, ...definition }
}
