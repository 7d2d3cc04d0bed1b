import { expect, test } from 'vitest'
import { attachmentOf, safeFileName } from '../../core/delivery-files.ts'

test.each([
  ['guide.pdf', 'guide.pdf'],
  ['Руководство.pdf', 'Руководство.pdf'],
  ['a'.repeat(200), 'a'.repeat(120)],
  ['🦫'.repeat(200), '🦫'.repeat(120)],
  ['../../etc/passwd', '_.._etc_passwd'],
  ['C:\\x\\y.pdf', 'C__x_y.pdf'],
  ['.htaccess', 'htaccess'],
  ['..', ''],
  ['a\r\nSet-Cookie: x', 'aSet-Cookie_ x'],
  ['invoice\u202efdp.exe', 'invoicefdp.exe'],
  ['a\u0000b\u200bc\u2028d\ufeff', 'abcd'],
  ['half \ud800', 'half \ufffd'],
  ['<img src=x onerror=alert(1)>.pdf', '_img src=x onerror=alert(1)_.pdf'],
  ['  spaces  ', 'spaces'],
  ['\u0000 .', ''],
])('R06: the file name %j is saved as %j', (given, expected) => expect(safeFileName(given)).toBe(expected))

test.each([
  ['guide.pdf', `attachment; filename="guide.pdf"; filename*=UTF-8''guide.pdf`],
  ['мой %41.pdf', `attachment; filename="___ _41.pdf"; filename*=UTF-8''%D0%BC%D0%BE%D0%B9%20%2541.pdf`],
  ["it's (1)*.txt", `attachment; filename="it's (1)*.txt"; filename*=UTF-8''it%27s%20%281%29%2A.txt`],
])('the name %j is sent as RFC 6266 and RFC 8187 want it', (name, expected) => expect(attachmentOf(name)).toBe(expected))
