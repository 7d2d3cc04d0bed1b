import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { openCas } from '../../infra/cas/open.ts'
import { report } from './platform.ts'
import { readObjects } from './stored-objects.ts'

const kills = 200
/** A writer that is ready is killed within so many milliseconds. */
const longestLifeMs = 300

/** Runs a writer and kills it. Answers the hashes of what it had stored by then. */
async function writeAndDie(url: string): Promise<string[]> {
  const writer = fork(join(import.meta.dirname, 'cas-writer-process.ts'), [url], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const stored: string[] = []
  const lines = createInterface({ input: writer.stdout as NonNullable<typeof writer.stdout> })
  lines.on('line', (line) => stored.push(line))
  const read = once(lines, 'close')
  await once(writer, 'message')
  await pause(Math.random() * longestLifeMs)
  writer.kill('SIGKILL')
  await read
  // the last line may be cut off
  return stored.filter((line) => line.length === 64)
}

test('24: a writer that is killed 200 times leaves no object that is not whole, loses none, and its leftovers are swept', async () => {
  const root = await mkdtemp(join(tmpdir(), 'plinth-kills-'))
  try {
    const url = pathToFileURL(root).href
    const stored: string[] = []
    for (let i = 0; i < kills; i += 4)
      stored.push(...(await Promise.all(Array.from({ length: 4 }, () => writeAndDie(url)))).flat())
    const { hashes, wrong: torn } = await readObjects(root)
    const lost = stored.filter((sha256) => !hashes.has(sha256))
    const leftovers = await readdir(join(root, 'incoming'))
    await (await openCas(url)).removeLeftovers(new Date(Date.now() + 1000))
    const kept = await readdir(join(root, 'incoming'))
    report(
      '24',
      `${torn.length} of ${hashes.size} objects not whole, ${lost.length} of ${stored.length} lost in ${kills} kills, ${kept.length} of ${leftovers.length} leftovers kept`,
      '0, 0, 0',
    )
    expect([torn, lost, kept]).toEqual([[], [], []])
    // the kills did come in the middle of writes
    expect(leftovers.length).toBeGreaterThan(kills / 4)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})
