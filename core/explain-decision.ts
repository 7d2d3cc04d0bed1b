import { encodePath } from './request-path.ts'
import { type Decision, isReserved, isSettingsFile } from './serving.ts'

/** Explains in one sentence how a request for a path is answered. @param path as the parameter of `decide` */
export function explainDecision(path: string, decision: Decision): string {
  if (decision.rule) return explainRule(path, decision, `Line ${decision.rule.line} of ${decision.rule.file}`)
  if (decision.kind === 'missing') return `${explainMissing(path)}.`
  if (decision.kind === 'file')
    return decision.status === 404 ? `${explainMissing(path)}, so 404.html answers.` : explainFile(path, decision.path)
  return decision.location.split('?', 1)[0] === `${encodePath(path)}/`
    ? `The deploy has ${path.slice(1)}/index.html, so ${path} redirects to ${path}/.`
    : `canonical_urls is on, so ${path} redirects to the one address of its page.`
}

function explainRule(path: string, decision: Decision, line: string): string {
  if (decision.kind === 'redirect') return `${line} redirects ${path} to ${decision.location} with the status ${decision.status}.`
  if (decision.kind === 'file') return `${line} answers ${path} with ${decision.path} and the status ${decision.status}.`
  return `${line} answers ${path} with a file that the deploy does not have, so the answer is 404.`
}

function explainMissing(path: string): string {
  if (isReserved(path)) return 'Paths below /__svc belong to the platform'
  if (isSettingsFile(path)) return `${path.slice(1)} configures the site and is not served`
  return `The deploy has no file and no rule for ${path}`
}

function explainFile(path: string, file: string): string {
  if (path.slice(1) === file) return `The deploy has the file ${file}.`
  if (file === `${path.slice(1)}.html` || file === `${path.slice(1)}index.html`)
    return `The deploy has ${file}, which answers ${path}.`
  return `The deploy has no file and no rule for ${path} and no 404.html, so index.html answers, as single-page apps need it.`
}
