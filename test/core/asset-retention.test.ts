import { expect, test } from 'vitest'
import { assetsToRetain } from '../../core/asset-retention.ts'
import { decide } from '../../core/serving.ts'

const file = (path: string) => ({ path, sha256: 'a'.repeat(64), size: 1 })
const retained = (paths: readonly string[], live: readonly string[] = []) =>
  assetsToRetain(paths.map(file), (path) => live.includes(path)).map(({ path }) => path)

test.each([
  ['assets/index-D1wrgTda.js', true],
  ['assets/index-D1wrgTda.js.map', true],
  ['_next/static/chunks/main.js', true],
  ['_app/immutable/entry/start.css', true],
  ['_astro/font', false],
  ['_astro/.hidden', false],
  ['index.html', false],
  ['_nuxt/page.html', false],
  ['style.css', false],
  ['report-20240101.pdf', false],
])('E34 E8: %s is retained: %s', (path, is) => expect(retained([path])).toEqual(is ? [path] : []))

test('E34: a file of the newer deploy takes the place of a retained one', () => {
  expect(retained(['a.D1wrgTda.js', 'b.D1wrgTda.js'], ['b.D1wrgTda.js'])).toEqual(['a.D1wrgTda.js'])
})

/** A generator of numbers below `n`, the same in each run. */
function numbers(seed: number) {
  let state = seed
  return (n: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
}

test('E34: no retained asset changes an answer with a live file or a redirect, in 3,000 pairs of deploys', () => {
  const below = numbers(34)
  const pick = <T>(from: readonly T[]) => from[below(from.length)] as T
  const folders = ['', 'assets/', '_astro/', '_astro/x/', '_next/static/', 'about/']
  const names = ['index', 'about', '404', 'x', 'x.D1wrgTda', 'app-D1wrgTda', 'D1wrgTda']
  const endings = ['', '.js', '.html', '.js.html', '.css', '/index.html', '.js/index.html']
  const someFiles = () => new Set(Array.from({ length: below(12) }, () => pick(folders) + pick(names) + pick(endings)))
  for (let pair = 0; pair < 3000; pair++) {
    const [older, live] = [someFiles(), someFiles()]
    const kept = new Set(assetsToRetain([...older].map(file), (path) => live.has(path)).map(({ path }) => path))
    const isLive = (path: string) => live.has(path)
    for (const path of [...older, ...live, ...[...kept].map((path) => `${path}/`)].map((path) => `/${path}`)) {
      const before = decide(path, isLive)
      const after = decide(path, (path) => live.has(path) || kept.has(path))
      if (!kept.has(path.slice(1))) {
        expect([path, after]).toEqual([path, before])
        continue
      }
      expect([path, before.kind === 'missing' || (before.kind === 'file' && before.status === 404)]).toEqual([path, true])
      expect(after).toEqual({ kind: 'file', path: path.slice(1), status: 200 })
    }
  }
})
