import { buffer } from 'node:stream/consumers'
import sharp from 'sharp'
import { becomeUser } from '../become-user.ts'
import { iconEdge, maxLogoEdge, maxLogoPixels, unreadable } from './logo-limits.ts'

// The process that decodes one image of a stranger: bytes on its standard input, a WebP image on its output. Its arguments are `logo` or `icon`,
// and the user that it becomes before it reads anything, when it is started as root. See confine.ts.

// libvips reads many formats besides; sharp would take an SVG, which can name other files
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['VipsForeignLoadPng', 'VipsForeignLoadJpeg', 'VipsForeignLoadNsgif', 'VipsForeignLoadWebp'],
})
sharp.cache(false)
sharp.concurrency(1)

const [, , use, uid] = process.argv
if (uid !== undefined) becomeUser(Number(uid))

const logo = { width: maxLogoEdge, height: maxLogoEdge, fit: 'inside', withoutEnlargement: true } as const
// browsers would stretch an icon that is not square
const icon = { width: iconEdge, height: iconEdge, fit: 'contain', background: '#0000' } as const

try {
  const image = sharp(await buffer(process.stdin), { limitInputPixels: maxLogoPixels, pages: 1 })
  // turned as its metadata say, which are left out then
  const upright = image.autoOrient().resize(use === 'icon' ? icon : logo)
  process.stdout.write(await upright.webp({ quality: 90 }).toBuffer())
} catch {
  process.exitCode = unreadable
}
