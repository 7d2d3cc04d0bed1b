import { describe, expect, test } from 'vitest'
import { cachePolicy } from '../../core/caching.ts'

describe('cachePolicy', () => {
  test.each(['index.html', 'a/b/about.html', 'INDEX.HTML', 'page.3f2a91bc.html', '_astro/page.html', '_next/static/x.html'])(
    'V09: the page %s is asked for again each time',
    (path) => {
      expect(cachePolicy(path)).toBe('no-cache')
    },
  )

  test.each([
    // Astro, Next, Nuxt, SvelteKit: by folder
    '_astro/index.css',
    '_astro/hoisted.DkW1a.js',
    'docs/_astro/logo.png',
    '_next/static/chunks/main.js',
    '_next/static/Zx81kq/_buildManifest.js',
    '_nuxt/entry.js',
    '_app/immutable/entry/start.js',
    // Vite, Rollup
    'assets/index-D1wrgTda.js',
    'assets/index-BxY12abC.css',
    'assets/index-BQ8_a1Zx.js',
    'assets/vendor-react-C7kLm2Qp.js.map',
    // webpack, Create React App, Angular, Parcel, Gatsby
    'static/js/main.3f2a91bc.js',
    'static/js/787.1a2b3c4d.chunk.js',
    'main.8a3c1f0b9d2e4f5a.js',
    'app-1b4f0e9851971998e732.js',
    'style.e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.css',
    'static/media/logo.6ce24c58023cc2f8fd88.svg',
    'photo_3F2A91BC.jpg',
    // esbuild, newer Angular
    'chunk-CL4UBRTV.js',
    'main-5ZJQ7XKA.js',
    'polyfills-FFHMD2TL.js.map',
    // base62 of other lengths
    'app.a8Kd93Lx0Pq2.js',
  ])('V10: %s has a content hash and may be kept for ever', (path) => {
    expect(cachePolicy(path)).toBe('max-age=31536000, immutable')
  })

  test.each([
    'style.css',
    'robots.txt',
    'LICENSE',
    'favicon.ico',
    'manifest.webmanifest',
    'js/jquery-3.7.1.min.js',
    'bootstrap-5.3.0-alpha1.min.css',
    'react-dom.production.min.js',
    'service-worker.js',
    // dates and numbers
    'report-20240131.pdf',
    'report-2024-01-31.pdf',
    'IMG_20240131_120000.jpg',
    'backup.1706659200.json',
    'scan-00000001.tiff',
    // words, with and without years
    'annual-report.pdf',
    'Annual-Report-2024.pdf',
    'report-Summer2024.pdf',
    'menu_berlin2024.pdf',
    'cafe-cafe2024.pdf',
    'My-Holiday-Photo-2.jpg',
    'spec-ISO27001.pdf',
    'photo-DSC01234.jpg',
    'font-OpenSansBold.woff2',
    'song-deadbeef.mp3',
    'logo-facade.png',
    'chapter-introduction1.html.txt',
    // no separator before, or too short
    '3f2a91bc.js',
    'main.3f2a91.js',
    // the folder's name alone
    'my_astro/index.css',
    '_next/image.png',
    '_app/version.json',
    'a.3f2a91bc/plain.css',
  ])('V11: %s may be kept for five minutes', (path) => {
    expect(cachePolicy(path)).toBe('max-age=300')
  })
})
