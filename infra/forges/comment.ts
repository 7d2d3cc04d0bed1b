import type { CommentReport } from './reports.ts'
import { ForgeError } from './transport.ts'

export interface Comment {
  readonly id: string
  readonly author: string | undefined
  readonly body: string
}

/** The comments of one pull request at a forge. */
export interface Comments {
  /** Lists comments, the oldest first; pages start at 1. Undefined when there are no more. */
  list(page: number): Promise<readonly Comment[] | undefined>
  /** The author of comments with this token. */
  author(): Promise<string | undefined>
  create(body: string): Promise<string>
  edit(id: string, body: string): Promise<void>
}

/** A marker that forges hide as a comment of HTML. */
export const htmlMarker = (siteId: string) => `<!-- plinth:${siteId} -->`
/** A marker as an unused link definition, because Bitbucket shows comments of HTML as text. */
export const linkMarker = (siteId: string) => `[//]: # (plinth:${siteId})`

const maxPages = 10

/** Edits the known comment, or else the one with our marker in its first line, or else creates it. */
export async function putComment(comments: Comments, report: CommentReport, marker: string): Promise<string> {
  const body = `${marker}\n\n${report.body}`
  if (report.known_id !== undefined && (await tryEdit(comments, report.known_id, body))) return report.known_id
  const found = await find(comments, marker)
  if (found === undefined || !(await tryEdit(comments, found, body))) return comments.create(body)
  return found
}

/** False when the comment was deleted. */
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

/** Anybody can copy the marker, so the author is checked too, if the token may read its own user. */
async function ownOf(comments: Comments, marked: readonly Comment[]): Promise<string | undefined> {
  const author = await comments.author().catch((error: unknown) => {
    if (error instanceof ForgeError && !error.isRetryable) return undefined
    throw error
  })
  return marked.find((comment) => author === undefined || comment.author === author)?.id
}
