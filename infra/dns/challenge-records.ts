import type { FindTxt } from './authority.ts'

/** How long the records that were read are reused; also their TTL. */
const freshMs = 1000

/**
 * Answers from all open challenges together, which are read at most once a second, however often and for whatever names strangers ask.
 * When they cannot be read, the query is not answered.
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
      // the failure is thrown to every caller within the second
      reading.catch(() => undefined)
    }
    return (await reading).get(name)
  }
}
