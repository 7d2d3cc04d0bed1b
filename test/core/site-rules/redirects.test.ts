import { expect, test } from 'vitest'
import { type Decision, decide } from '../../../core/serving.ts'
import { compileRules } from '../../../core/site-rules/compile.ts'
import { prepareRules } from '../../../core/site-rules/prepare.ts'

const files = new Set(['index.html', 'about.html', 'app/index.html', 'en/404.html'])

function answer(redirects: string, address: string): string {
  const { rules } = compileRules({ redirects })
  const [path = '', query] = address.split('?')
  const options = { query: query === undefined ? '' : `?${query}`, rules: rules && prepareRules(rules) }
  return show(decide(path, (file) => files.has(file), options))
}

function show(decision: Decision): string {
  if (decision.kind === 'missing') return 'missing'
  return `${decision.status} ${decision.kind === 'file' ? decision.path : decision.location}`
}

test.each([
  ['/home /', '/home', '301 /'],
  ['/news/* /blog/:splat', '/news/2004/01/10/my-story', '301 /blog/2004/01/10/my-story'],
  ['/about /elsewhere', '/about', '200 about.html'],
  ['/about /elsewhere 302!', '/about', '302 /elsewhere'],
  ['/store id=:id /blog/:id 301', '/store?id=5', '301 /blog/5?id=5'],
  ['/en/* /en/404.html 404', '/en/nope', '404 en/404.html'],
])('E32: with %s, %s answers %s', (rules, address, expected) => expect(answer(rules, address)).toBe(expected))
