import { AppError, type ErrorCode, type ErrorKind } from '../../core/errors.ts'

// What a limited thread and the process that started it send each other: calls one way, answers the other.

/** The functions that a thread serves, by name. What they are given and answer is copied. */
// biome-ignore lint/suspicious/noExplicitAny: each thread has functions of its own
export type Calls = Readonly<Record<string, (...args: any[]) => unknown>>

/** What the thread is given. */
export interface ThreadData {
  /** Its first element grows with every sign of life. */
  readonly beats: Int32Array
  readonly beatMs: number
}

export interface Call {
  readonly id: number
  readonly name: string
  readonly args: readonly unknown[]
}

export type Answer = { readonly id: number; readonly value: unknown } | { readonly id: number; readonly error: CallError }

/** An error as far as it can be copied. */
interface CallError extends Pick<NodeJS.ErrnoException, 'name' | 'message'> {
  readonly stack: string | undefined
  readonly code: string | undefined
  readonly path: string | undefined
  readonly syscall: string | undefined
  readonly refusal: { readonly kind: ErrorKind; readonly code: ErrorCode } | undefined
}

export function packError(error: unknown): CallError {
  const { name, message, stack, code, path, syscall } = error as NodeJS.ErrnoException
  const refusal = error instanceof AppError ? { kind: error.kind, code: error.code } : undefined
  return { name, message, stack, code, path, syscall, refusal }
}

export function unpackError({ refusal, name, message, stack, code, path, syscall }: CallError): Error {
  if (refusal) return new AppError(refusal.kind, message, { code: refusal.code })
  const facts = { name, ...(stack && { stack }), ...(code && { code }), ...(path && { path }), ...(syscall && { syscall }) }
  return Object.assign(new Error(message), facts)
}
