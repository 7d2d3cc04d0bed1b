import type { FindTxt } from './authority.ts'

/** How long what was read counts; resolvers are told the same. */
const freshMs = 1000

/**
 * Answers from all open challenges together, which are read at most once a second however often and for whatever names strangers ask.
 * When they cannot be read, the question is not answered.
 *
 * @param read every open challenge
 */
export function cachedChallenges(read: () => Promise<readonly { readonly name: string; readonly value: string }[]>): FindTxt {
  let readAtMs = Number.NEGATIVE_INFINITY
  let reading: Promise<ReadonlyMap<string, string[]>> = Promise.resolve(new Map())
  return async (name) => {
    if (performance.now() - readAtMs >= freshMs) {
      readAtMs = performance.now()
      reading = read().then((rows) => {
        const byName = new Map<string, string[]>()
        for (const { name, value } of rows) byName.set(name, [...(byName.get(name) ?? []), value])
        return byName
      })
      // a failure is told to whoever asks within the second
      reading.catch(() => undefined)
    }
    return (await reading).get(name)
  }
}
