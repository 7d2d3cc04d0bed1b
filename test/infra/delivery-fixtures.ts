const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')
const bytes = (text: string) => Buffer.from(text, 'latin1')
const html = '<!doctype html><script>alert(1)</script>'
const text = 'text/plain; charset=utf-8'
const docx = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'

/** A zip with one stored file. */
function zipOf(name: string, content: string): Buffer {
  const header = Buffer.alloc(30)
  header.writeUInt32LE(0x04034b50)
  header.writeUInt16LE(20, 4)
  header.writeUInt32LE(content.length, 18)
  header.writeUInt32LE(content.length, 22)
  header.writeUInt16LE(name.length, 26)
  return Buffer.concat([header, bytes(name), bytes(content)])
}

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const contentTypes =
  '<?xml version="1.0"?><Types><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'

/** What a file is, its type when it is accepted, and its bytes. */
export const files: readonly (readonly [what: string, type: string | undefined, bytes: Buffer])[] = [
  ['a PDF', 'application/pdf', bytes('%PDF-1.7\n1 0 obj')],
  ['a PNG', 'image/png', png],
  ['a JPEG', 'image/jpeg', bytes('\xff\xd8\xff\xe0\0\x10JFIF\0')],
  ['a GIF', 'image/gif', bytes('GIF89a\x01\0\x01\0')],
  ['a WebP', 'image/webp', bytes('RIFF\x24\0\0\0WEBPVP8 ')],
  ['a zip', 'application/zip', zipOf('a.txt', 'x')],
  ['an empty zip', undefined, bytes(`PK\x05\x06${'\0'.repeat(18)}`)],
  ['a docx', docx, zipOf('[Content_Types].xml', contentTypes)],
  ['a jar', 'application/zip', zipOf('META-INF/MANIFEST.MF', 'Manifest-Version: 1.0')],
  ['a text', text, Buffer.from('Hello, 世界 🦫\n')],
  ['a text with a BOM', text, Buffer.from('\ufeffHello')],
  ['a CSV', text, Buffer.from('a,b\n1,2\n')],
  ['a Markdown text with a comparison', text, Buffer.from('< 5 and > 3')],
  ['a text with tags inside', text, Buffer.from('Use <b> for bold.')],
  ['a letter', text, Buffer.from('x')],
  ['a script of a shell', text, Buffer.from('#!/bin/sh\nrm -rf /\n')],
  ['a PDF that goes on as HTML', 'application/pdf', bytes(`%PDF-1.4\n${html}`)],
  ['a GIF that goes on as a script', 'image/gif', bytes('GIF89a=1;alert(1)')],
  ['a PNG with HTML in it', 'image/png', Buffer.concat([png, bytes(html)])],
  ['HTML', undefined, bytes(html)],
  ['HTML in capitals', undefined, bytes('<HTML><BODY>')],
  ['HTML behind a BOM', undefined, Buffer.from(`\ufeff${html}`)],
  ['HTML behind white space', undefined, bytes(` \t\r\n\f${html}`)],
  ['HTML behind much white space', undefined, bytes(' '.repeat(100_000) + html)],
  ['HTML behind invisible characters', undefined, Buffer.from(`\u200b\u0001\u00ad${html}`)],
  ['HTML behind a comment', undefined, bytes(`<!-- x -->${html}`)],
  ['HTML in UTF-16', undefined, utf16(html)],
  ['HTML in UTF-16 without a BOM', undefined, Buffer.from(html, 'utf16le')],
  ['HTML that a PDF follows', undefined, bytes(`${html}%PDF-1.4`)],
  ['a fragment of HTML', undefined, bytes('<img src=x onerror=alert(1)>')],
  ['SVG', undefined, bytes('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')],
  ['XML', undefined, bytes('<?xml version="1.0"?><svg/>')],
  ['an end tag', undefined, bytes('</x>')],
  ['a PDF behind an ID3 tag', undefined, bytes('ID3\x03\0\0\0\0\0\x04aaaa%PDF-1.4')],
  ['a WAV', undefined, bytes('RIFF\x24\0\0\0WAVEfmt ')],
  ['a program', undefined, bytes('\x7fELF\x02\x01\x01\0')],
  ['a gzip', undefined, bytes('\x1f\x8b\x08\0')],
  ['a text with NUL', undefined, bytes('a\0b')],
  ['a text in Latin-1', undefined, bytes('caf\xe9 au lait')],
  ['a text that breaks off within a character', undefined, Buffer.from('é').subarray(0, 1)],
  ['a text that is none after 100 KB', undefined, Buffer.concat([Buffer.from('x'.repeat(100_000)), Buffer.from([0xff])])],
]
