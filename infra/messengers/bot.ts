import type { z } from 'zod'
import { MessengerError } from './provider.ts'

/** The bot of the operator, by what its links and the messenger name it. */
interface Bot {
  readonly id: string
  readonly username: string
}

const freshMs = 3_600_000

/** Asks who the bot is at most once an hour; while the messenger is away, it is who it was. @throws MessengerError */
export function cachedBot(ask: () => Promise<{ readonly id: string; readonly username?: string | null | undefined }>) {
  let known: { readonly bot: Bot; readonly atMs: number } | undefined
  let asking: Promise<Bot> | undefined
  async function refresh(): Promise<Bot> {
    try {
      const { id, username } = await ask()
      if (!username) throw new MessengerError('unavailable', 'the bot has no name')
      known = { bot: { id, username }, atMs: performance.now() }
      return known.bot
    } catch (error) {
      if (known) return known.bot
      throw isOfSchema(error) ? new MessengerError('unavailable', 'the messenger did not describe its bot') : error
    } finally {
      asking = undefined
    }
  }
  return async (): Promise<Bot> => {
    if (known && performance.now() - known.atMs < freshMs) return known.bot
    asking ??= refresh()
    return await asking
  }
}

const isOfSchema = (error: unknown): error is z.ZodError => error instanceof Error && error.name === 'ZodError'
