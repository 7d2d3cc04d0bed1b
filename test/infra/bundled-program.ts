import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { z } from 'zod'
import { oneLine } from '../../core/emails.ts'

// A program that needs what a bundle has to keep: its own place, a library, a thread of its own, and characters beyond ASCII.

const thread = new Worker(new URL('./bundled-thread.ts', import.meta.url), { execArgv: [], env: {} })
const [fromThread] = await once(thread, 'message')
const own = readFileSync(join(import.meta.dirname, 'bundled-program.ts'), 'utf8')
const parsed = z.string().parse('größer 🚫')

function fail(): Error {
  return new Error('thrown')
}

process.stdout.write(JSON.stringify({ fromThread, ownLength: own.length, text: oneLine(parsed), stack: fail().stack }))
