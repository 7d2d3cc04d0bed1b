import type { z } from 'zod'
import type { Feature } from '../core/plans.ts'
import type { Scope } from '../core/scopes.ts'
import type { OfSite } from '../services/sites/sites.ts'
import type { Upload } from '../services/storage/pending-upload.ts'
import type { Context } from './context.ts'
import type { Download } from './download.ts'
import type { ServerSentEvent } from './follow-logs.ts'
import type { Answer } from './listing.ts'
import type { LongTexts } from './long-texts.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A request body that is bytes, not JSON: the whole body in REST, `<name>_base64` in a tool. */
export interface RawInput {
  readonly name: string
  readonly description: string
  readonly mediaTypes: readonly string[]
  readonly maxBytes: number
}

/** The hints about a tool for its clients; an absent one is false. */
export interface ToolHints {
  readonly readOnly?: boolean
  readonly idempotent?: boolean
  readonly destructive?: boolean
  /** The tool is destructive: it refuses a call without `confirm: true`. REST does not ask. */
  readonly confirm?: boolean
  /** How what the tool does is undone, as the end of a sentence; without it, the refusal says that it cannot be. */
  readonly undo?: string
}

/** What a stream of events ends with: its client leaves, or the server drains. */
export interface Following {
  readonly signal: AbortSignal
  /** The id of the last event that the client has; undefined for a new client. */
  readonly lastEventId: string | undefined
}

/** A whole file of comma-separated values. */
export interface CsvFile {
  readonly name: string
  readonly text: string
}

/**
 * A list that a result is or has, of any length: REST sends it as it is read, and a tool cuts it. Every other array of a result has a
 * `maxItems`.
 */
export interface ResultList {
  /** The member of the result that is the list; the result itself when absent. */
  readonly member?: string
  /** The member of an element that names it. */
  readonly key: string
  /** The member of the input that takes the key of an element, and lists what follows it. Tools without one get `after`. */
  readonly continuedBy?: string
}

export type ErrorStatus = 400 | 402 | 404 | 409 | 413 | 429 | 503

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
  /** Method and path below the base address; `{name}` is a member of `input`. Absent for operations that are only tools. */
  readonly rest?: `${Method} /${string}`
  /** Absent for operations that are only in REST. */
  readonly tool?: ToolHints
  readonly scope: Scope
  /** A flat schema with the tools' names. REST takes the members from path, query and JSON body by name. */
  readonly input: z.ZodObject
  /** Members of `input` that REST takes from the query even though the request has a body. */
  readonly query?: readonly string[]
  /** The names of members of `input` in the query of REST, where they differ. */
  readonly queryAliases?: Readonly<Record<string, string>>
  readonly raw?: RawInput
  /** A complete example of a JSON body, for the OpenAPI document. */
  readonly example?: Readonly<Record<string, unknown>>
  /** The largest JSON body, when it differs from the usual limit. */
  readonly maxBodyBytes?: number
  /**
   * For JSON bodies that may be too large for memory; large ones are processed two at a time in this process. Long strings of `longMembers`,
   * at any level, stay in a file: `texts` has them by the marks that replace them.
   */
  readonly largeBody?: { readonly maxBytes: number; readonly longMembers: readonly string[] }
  readonly requires?: Feature
  readonly whenSuspended?: 'refuse'
  /** For operations whose `load` returns a site or something that belongs to one. Transactions check again, because the site may be trashed in between. */
  readonly whenTrashed?: 'refuse'
  readonly output: z.ZodType
  /** A tool has one at most. */
  readonly lists?: readonly ResultList[]
  /** The media types of a result that REST sends as a file; the handler returns a `Download` then. */
  readonly download?: readonly string[]
  /** The result as a small file: REST sends it for `format=csv`. Tools have the JSON only. */
  readonly csv?: (ctx: Context, input: never, target: never) => Promise<CsvFile>
  /** The statuses of its failures, besides those that every operation has. */
  readonly errors: readonly ErrorStatus[]
  /** Bodies of errors that have more than a message, by status. */
  readonly errorBodies?: Partial<Readonly<Record<ErrorStatus, z.ZodType>>>
  readonly load: (ctx: Context, input: never) => Promise<unknown>
  readonly handler: (ctx: Context, input: never, target: never) => Promise<unknown>
  /** The events of the result as it changes: REST streams them for `follow=true` and for `Accept: text/event-stream`. Tools never follow. */
  readonly events?: (ctx: Context, input: never, target: never, following: Following) => AsyncIterable<ServerSentEvent>
  /** REST streams the events unless the request has `follow=false` or prefers JSON. */
  readonly streamsByDefault?: true
}

interface Definition<Input extends z.ZodObject, Output extends z.ZodType, Target>
  extends Omit<Operation, 'input' | 'output' | 'load' | 'handler' | 'errors' | 'example' | 'events' | 'csv' | 'whenTrashed'> {
  readonly input: Input
  readonly output: Output
  readonly errors?: readonly ErrorStatus[]
  readonly whenTrashed?: Target extends OfSite ? 'refuse' : never
  readonly example?: Partial<z.input<Input>>
  /** Finds the object of the call. It throws `not_found`, so another project's ids look absent before any check of plan or state. */
  readonly load?: (ctx: Context, input: z.output<Input>) => Promise<Target>
  readonly handler: (
    ctx: Context,
    input: z.output<Input> & { readonly upload: Upload; readonly texts?: LongTexts },
    target: Target,
  ) => Promise<Answer<z.input<Output>> | Download>
  readonly csv?: (ctx: Context, input: z.output<Input>, target: Target) => Promise<CsvFile>
  readonly events?: (ctx: Context, input: z.output<Input>, target: Target, following: Following) => AsyncIterable<ServerSentEvent>
}

/** Checks the types of one operation and erases them, so that all operations fit one list. */
export function operation<Input extends z.ZodObject, Output extends z.ZodType, Target = undefined>(
  definition: Definition<Input, Output, Target>,
): Operation {
  return { errors: [], load: async () => undefined, ...definition }
}
