import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { invalid, tooManyRequests, unavailable } from '../../core/errors.ts'
import { FairQueue } from '../fair-queue.ts'
import { imageType } from '../file-type.ts'
import { iconEdge, maxLogoEdge, maxLogoPixels, unreadable } from './logo-limits.ts'

/** A logo keeps its proportions, an icon becomes square. */
type ImageUse = 'logo' | 'icon'

/**
 * Makes a small WebP image of a PNG, JPEG, GIF or WebP image, without its metadata.
 * @param payer the project that sent it
 * @param use a logo unless it says something else
 * @throws AppError `invalid` for other bytes and for too many pixels; `too_many_requests`, `unavailable` when too many wait
 */
export type ResizeLogo = (payer: string, image: Buffer, use?: ImageUse) => Promise<Buffer>

/**
 * Limits all writable memory, of which V8 reserves more than half without using it, processor time and files, in KiB, seconds and blocks. A system
 * without one of these limits starts the process without it.
 */
const limited = 'ulimit -c 0; ulimit -d 1048576 2>/dev/null; ulimit -t 10 2>/dev/null; ulimit -f 0 2>/dev/null; exec "$0" "$@"'
const heapMb = 64
const deadlineMs = 20_000
const program = fileURLToPath(new URL('./resize-child.ts', import.meta.url))
const notAnImage = (use: ImageUse) =>
  invalid(
    `the ${use} must be a PNG, JPEG, GIF or WebP image of at most ${maxLogoPixels / 1_000_000} megapixels; ${
      use === 'logo' ? `it is made at most ${maxLogoEdge}` : `it is made ${iconEdge}`
    } pixels wide and high`,
  )

/** Each image is decoded in a process of its own, one at a time: what it does to its decoder, this process goes on with its memory. */
export function createLogoResizer(): ResizeLogo {
  const queue = new FairQueue({
    slots: 1,
    waitingRoom: {
      total: 20,
      perPayer: 3,
      overflow: (why) =>
        why === 'payer'
          ? tooManyRequests('too many images of this project are being resized; try again in 5 seconds', 5)
          : unavailable('too many images are being resized; try again in 5 seconds'),
    },
  })
  return async (payer, image, use = 'logo') => {
    if (imageType(image) === undefined) throw notAnImage(use)
    return await queue.run(payer, () => resize(image, use))
  }
}

async function resize(image: Buffer, use: ImageUse): Promise<Buffer> {
  const child = spawn('/bin/sh', ['-c', limited, process.execPath, `--max-old-space-size=${heapMb}`, program, use], {
    cwd: '/',
    env: {},
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
  try {
    // a process that ends without reading its input is no failure of this one
    child.stdin.on('error', () => undefined)
    child.stdin.end(image)
    const [resized, [code]] = await Promise.all([buffer(child.stdout), once(child, 'exit') as Promise<[number | null]>])
    if (code === 0 && resized.length > 0) return resized
    // ended at a limit: of its memory, its processor time, or the deadline
    if (code === unreadable || code === null || code === 134) throw notAnImage(use)
    throw new Error(`the process that resizes images ended with exit code ${code}`)
  } finally {
    clearTimeout(timer)
    child.kill('SIGKILL')
  }
}
