import type { Context as KoaContext, Next } from 'koa'
import { plinthFileSchema } from '../infra/plinth-file.ts'
import { docsPage, docsPolicy, references } from './docs/page.ts'
import { llmsText } from './llms.ts'
import { faces, openApiDocument } from './openapi.ts'
import { operations, tags } from './operations/index.ts'
import { operatorOperations, operatorTags } from './operator/index.ts'

interface Document {
  readonly type: string
  readonly text: string
}

/** What the api says about itself, to people and to programs, by path. */
export type Documents = ReadonlyMap<string, Document>

/** Makes all documents, which takes a tenth of a second. @param baseUrl where the api is reached */
export function makeDocuments(baseUrl: string): Documents {
  const json = (document: object, type = 'application/json') => ({ type, text: JSON.stringify(document) })
  const html = (text: string) => ({ type: 'text/html', text })
  return new Map([
    ['/api/v1/openapi.json', json(openApiDocument(operations, tags, baseUrl))],
    ['/operator/v1/openapi.json', json(openApiDocument(operatorOperations, operatorTags, baseUrl, faces.operator))],
    ['/docs', html(docsPage(operations, tags, baseUrl))],
    ['/docs/operator', html(docsPage(operatorOperations, operatorTags, baseUrl, references.operator))],
    ['/llms.txt', { type: 'text/plain', text: llmsText(operations, tags, baseUrl) }],
    ['/plinth.schema.json', json(plinthFileSchema(), 'application/schema+json')],
  ])
}

/** Answers requests for the documents, and sends people who open the root to the reference. */
export function serveDocuments(documents: Documents) {
  return async (koa: KoaContext, next: Next): Promise<void> => {
    const document = documents.get(koa.path)
    if (koa.method !== 'GET' && koa.method !== 'HEAD') await next()
    else if (document) answer(koa, document)
    else if (koa.path === '/') koa.redirect('/docs')
    else await next()
  }
}

function answer(koa: KoaContext, { type, text }: Document): void {
  koa.type = type
  koa.body = text
  koa.set('cache-control', 'no-cache')
  if (type === 'text/html') koa.set('content-security-policy', docsPolicy)
}
