import { setTimeout as delay } from 'node:timers/promises'

/**
 * Asks `ready` every 20 ms until it says true.
 * @param ended settles when waiting has no point any more; its text is part of the error
 * @throws Error after `timeoutMs`, or when `ended` settles first
 */
export async function waitUntil(
  what: string,
  ready: () => Promise<boolean> | boolean,
  { timeoutMs, ended }: { readonly timeoutMs: number; readonly ended?: Promise<string> },
): Promise<void> {
  let end: string | undefined
  void ended?.then((how) => {
    end = how
  })
  const deadline = Date.now() + timeoutMs
  while (!(await ready())) {
    if (end !== undefined) throw new Error(`${what} ended while it was starting (${end})`)
    if (Date.now() > deadline) throw new Error(`${what} was not ready within ${timeoutMs / 1000} s`)
    await delay(20)
  }
}
