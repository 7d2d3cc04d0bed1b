import { flushCompileCache } from 'node:module'
import type { Outcome } from './fetch-process.ts'
import { fetchRepository, type RepositoryRequest } from './fetch-repository.ts'
import { becomeUser } from './fetch-user.ts'
import { GitError } from './git-error.ts'

// The process in which a stranger's repository is read. It has no settings and no environment: everything comes over its channel,
// once, and goes back over it; when the channel closes, its parent has gone or does not want the answer any more.
process.once('disconnect', () => process.exit())
// its program may lie where only root can read it; from here on it is another user, before anything of a stranger is read
const [uid] = process.argv.slice(2).map(Number)
if (uid !== undefined) {
  // half of the processor time of the next start; the folder is root's
  flushCompileCache()
  becomeUser(uid)
}
process.once('message', (asked: RepositoryRequest) => void answer(asked))

async function answer(asked: RepositoryRequest): Promise<void> {
  watchMemory(asked.limits.maxMemoryBytes)
  report(await outcomeOf(asked))
}

async function outcomeOf(asked: RepositoryRequest): Promise<Outcome> {
  try {
    return { fetched: await fetchRepository(asked) }
  } catch (error) {
    if (error instanceof GitError) return { refused: { reason: error.reason, message: error.message } }
    return { broken: String((error as Error).stack ?? error) }
  }
}

/** Buffers lie outside of the heap, which alone has a limit of its own. */
function watchMemory(maxBytes: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > maxBytes) report({ refused: tooMuchMemory })
  }, 100).unref()
}

const tooMuchMemory = { reason: 'too_large', message: 'the repository is too large: unpacking it takes too much memory' } as const

const report = (outcome: Outcome) => process.send?.(outcome, () => process.exit())
