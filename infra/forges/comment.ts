import type { CommentReport } from './reports.ts'
import { ForgeError } from './transport.ts'

export interface Comment {
  readonly id: string
  readonly author: string | undefined
  readonly body: string
}

/** What the comments of one pull request need of a forge. */
export interface Comments {
  /** From the oldest on; pages start at 1. Undefined when there are no more. */
  list(page: number): Promise<readonly Comment[] | undefined>
  /** The author of what this token writes. */
  author(): Promise<string | undefined>
  create(body: string): Promise<string>
  edit(id: string, body: string): Promise<void>
}

/** Not shown by forges that hide comments of HTML. */
export const htmlMarker = (siteId: string) => `<!-- plinth:${siteId} -->`
/** A definition of a link that nothing uses: Bitbucket shows comments of HTML as text. */
export const linkMarker = (siteId: string) => `[//]: # (plinth:${siteId})`

const maxPages = 10

/** Edits the comment that is known, else the one with our marker in its first line, else makes it. */
export async function putComment(comments: Comments, report: CommentReport, marker: string): Promise<string> {
  const body = `${marker}\n\n${report.body}`
  if (report.known_id !== undefined && (await tryEdit(comments, report.known_id, body))) return report.known_id
  const found = await find(comments, marker)
  if (found === undefined || !(await tryEdit(comments, found, body))) return comments.create(body)
  return found
}

/** False when somebody has deleted it. */
async function tryEdit(comments: Comments, id: string, body: string): Promise<boolean> {
  try {
    await comments.edit(id, body)
    return true
  } catch (error) {
    if (error instanceof ForgeError && error.kind === 'gone') return false
    throw error
  }
}

async function find(comments: Comments, marker: string): Promise<string | undefined> {
  for (let page = 1; page <= maxPages; page++) {
    const listed = await comments.list(page)
    const marked = listed?.filter(({ body }) => body.split('\n', 1)[0]?.trim() === marker) ?? []
    const mine = marked.length > 0 ? await ownOf(comments, marked) : undefined
    if (mine !== undefined || listed === undefined) return mine
  }
  return undefined
}

/** Anybody can copy the marker, so the author counts too, if the token may know who it is. */
async function ownOf(comments: Comments, marked: readonly Comment[]): Promise<string | undefined> {
  const author = await comments.author().catch((error: unknown) => {
    if (error instanceof ForgeError && !error.isRetryable) return undefined
    throw error
  })
  return marked.find((comment) => author === undefined || comment.author === author)?.id
}
