import { buffer } from 'node:stream/consumers'
import sharp from 'sharp'
import { maxLogoEdge, maxLogoPixels, unreadable } from './logo-limits.ts'

// The process that decodes one image of a stranger: bytes on its standard input, a WebP image on its output. See resize-logo.ts.

// libvips reads many formats besides; sharp would take an SVG, which can name other files
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['VipsForeignLoadPng', 'VipsForeignLoadJpeg', 'VipsForeignLoadNsgif', 'VipsForeignLoadWebp'],
})
sharp.cache(false)
sharp.concurrency(1)

try {
  const image = sharp(await buffer(process.stdin), { limitInputPixels: maxLogoPixels, pages: 1 })
  // turned as its metadata say, which are left out then
  const upright = image.autoOrient().resize({ width: maxLogoEdge, height: maxLogoEdge, fit: 'inside', withoutEnlargement: true })
  process.stdout.write(await upright.webp({ quality: 90 }).toBuffer())
} catch {
  process.exitCode = unreadable
}
