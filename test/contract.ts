import { expect } from 'vitest'
import { csvType } from '../api/csv-format.ts'
import { codesOf } from '../api/http-errors.ts'
import { openApiDocument } from '../api/openapi.ts'
import type { ErrorStatus } from '../api/operation.ts'
import { operations } from '../api/operations/index.ts'
import { operatorOperations } from '../api/operator/index.ts'
import { restShape } from '../api/rest.ts'
import { submit_form } from '../api/visitor/form-operation.ts'

const routes = [...operations, ...operatorOperations].flatMap((op) => {
  const shape = restShape(op)
  if (!shape) return []
  const path = new RegExp(`^${shape.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
  return { op, method: shape.method, template: shape.path, path }
})

const documented = openApiDocument([...operations, ...operatorOperations], {}, 'http://localhost').paths as Record<
  string,
  Record<
    string,
    { responses: Record<string, { headers?: Record<string, unknown>; content?: Record<string, unknown>; $ref?: string }> }
  >
>

interface Received {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

/** O03: fails when an operation answers what its document does not say: another status, member or form of error. */
export function expectDocumented(method: string, target: string, { status, headers, body }: Received): void {
  const path = target.split('?')[0] ?? ''
  if (method === submit_form.method && /^\/f\/[^/]+$/.test(path)) {
    expectFormDocumented({ status, headers, body })
    return
  }
  const route = routes.find((candidate) => candidate.method === method && candidate.path.test(path))
  // which methods a path has is not part of any operation
  if (!route || status === 405) return
  const { op, template } = route
  const statuses = Object.keys(documented[template]?.[method.toLowerCase()]?.responses ?? {})
  expect(statuses, `${op.id} answered ${status} ${JSON.stringify(body)}`).toContain(String(status))
  const type = headers.get('content-type')?.split(';')[0]
  if (op.download && status === 200) {
    expect(op.download, op.id).toContain(type)
    return
  }
  if (op.csv && status === 200 && type === csvType) return
  expect(headers.get('content-type'), op.id).toMatch(/^application\/json/)
  if (status === 200) expect(op.output.parse(body), `${op.id} answered members that it does not declare`).toEqual(body)
  else if (Object.keys(body as object).includes('message')) expect(body, op.id).toEqual({ message: expect.stringMatching(/\S/) })
  else expect(op.errorBodies?.[status as ErrorStatus]?.parse(body), `${op.id} answered ${JSON.stringify(body)}`).toEqual(body)
  if (status !== 200) expect(codesOf(status), op.id).toContain(headers.get('plinth-error'))
  if (status === 401) expect(headers.get('www-authenticate'), op.id).toBe('Bearer')
  if (status === 429 || status === 503) expect(Number(headers.get('retry-after')), op.id).toBeGreaterThan(0)
}

/** The same for the form endpoint, which browsers get pages from. */
function expectFormDocumented({ status, headers, body }: Received): void {
  const response = documented[submit_form.path]?.['post']?.responses[status]
  expect(response, `${submit_form.id} answered ${status} ${JSON.stringify(body)}`).toBeDefined()
  const type = headers.get('content-type')?.split(';')[0]
  if (response?.content) expect(Object.keys(response.content), submit_form.id).toContain(type)
  if (status === 303) expect(headers.get('location'), submit_form.id).toMatch(/^https?:/)
  if (status === 200 && type === 'application/json') expect(body, submit_form.id).toEqual({ ok: true })
  if (status < 400) return
  const reason = headers.get('plinth-error')
  expect(codesOf(status), submit_form.id).toContain(reason)
  if (type === 'application/json') expect(body, submit_form.id).toEqual({ message: expect.stringMatching(/\S/), reason })
  if (status === 429 || status === 503) expect(Number(headers.get('retry-after')), submit_form.id).toBeGreaterThan(0)
}
