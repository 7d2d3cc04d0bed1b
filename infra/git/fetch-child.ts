import { flushCompileCache } from 'node:module'
import { becomeUser } from '../become-user.ts'
import type { Outcome } from './fetch-process.ts'
import { fetchRepository, type RepositoryRequest } from './fetch-repository.ts'
import { GitError } from './git-error.ts'

// The process in which an untrusted repository is read. It has no settings and no environment: its input arrives over its channel, once, and
// its result goes back over it. When the channel closes, its parent is gone or no longer needs the result.
process.once('disconnect', () => process.exit())
// its program may be readable only by root; it becomes another user here, before it reads anything untrusted
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
    if (error instanceof GitError) {
      const { reason, message, refusedName } = error
      return { refused: { reason, message, refusedName } }
    }
    return { broken: String((error as Error).stack ?? error) }
  }
}

/** Limits buffers, which are outside of the heap: only the heap has a limit of its own. */
function watchMemory(maxBytes: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > maxBytes) report({ refused: tooMuchMemory })
  }, 100).unref()
}

const tooMuchMemory = { reason: 'too_large', message: 'the repository is too large: unpacking it takes too much memory' } as const

const report = (outcome: Outcome) => process.send?.(outcome, () => process.exit())
