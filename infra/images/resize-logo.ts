import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { invalid, tooManyRequests, unavailable } from '../../core/errors.ts'
import { FairQueue } from '../fair-queue.ts'
import { imageType } from '../file-type.ts'
import { type Confinement, type ConfinementOptions, openConfinement } from './confine.ts'
import { iconEdge, maxLogoEdge, maxLogoPixels, unreadable } from './logo-limits.ts'

/** A logo keeps its proportions, an icon becomes square. */
type ImageUse = 'logo' | 'icon'

/**
 * Makes a small WebP image of a PNG, JPEG, GIF or WebP image, without its metadata.
 * @param payer the project that sent it
 * @param use a logo unless it says something else
 * @throws AppError `invalid` for other bytes and for too many pixels; `too_many_requests`, `unavailable` when too many wait; `unavailable` where
 * this machine cannot confine the decoder
 */
export type ResizeLogo = (payer: string, image: Buffer, use?: ImageUse) => Promise<Buffer>

const heapMb = 64
const deadlineMs = 20_000
const program = fileURLToPath(new URL('./resize-child.ts', import.meta.url))
const notAnImage = (use: ImageUse) =>
  invalid(
    `the ${use} must be a PNG, JPEG, GIF or WebP image of at most ${maxLogoPixels / 1_000_000} megapixels; ${
      use === 'logo' ? `it is made at most ${maxLogoEdge}` : `it is made ${iconEdge}`
    } pixels wide and high`,
  )

/** Each image is decoded in a confined process of its own, one at a time: whatever it does to its decoder harms nothing else. */
export function createLogoResizer(options: ConfinementOptions): ResizeLogo {
  const confinement = openConfinement(join(dirname(program), '../..'), options)
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
    return await queue.run(payer, () => resize(confinement, image, use))
  }
}

async function resize(confinement: Confinement, image: Buffer, use: ImageUse): Promise<Buffer> {
  const user = confinement.uid === undefined ? [] : [String(confinement.uid)]
  const child = await confinement.start([`--max-old-space-size=${heapMb}`, program, use, ...user])
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
  try {
    // a process that ends without reading its input is no failure of this one
    child.stdin.on('error', () => undefined)
    child.stdin.end(image)
    const [resized, [code]] = await Promise.all([buffer(child.stdout), once(child, 'exit') as Promise<[number | null]>])
    if (code === 0 && resized.length > 0) return resized
    // ended by a signal at a limit: of its memory, its processor time, or the deadline
    if (code === unreadable || code === null || code > 128) throw notAnImage(use)
    throw new Error(`the process that resizes images ended with exit code ${code}`)
  } finally {
    clearTimeout(timer)
    child.kill('SIGKILL')
  }
}
