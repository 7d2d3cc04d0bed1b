// What a stranger has written must not become a link in an email, neither by our markup nor by that of a mail program. Mail programs make links of
// all that looks like one: `https://…`, `www.…`, `name.tld`, IP and email addresses, `\\host\…`, and `scheme:…` of any program that is installed.
// Invisible characters or spaces between the parts do not stop all of them: Thunderbird drops the spaces between quotes and angle brackets (RFC
// 3986, appendix C). So what joins the parts of an address is shown in square brackets, which no address has there: `https[://]evil[.]example`.

/** A part of a text: a stranger's, or one that may have links. */
export interface TextPiece {
  readonly text: string
  readonly isForeign: boolean
}

/** Characters that cannot be seen, or that turn the direction of the text around them; those that join letters and emoji stay. */
const invisible = /[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu

export const withoutInvisible = (text: string) => text.replace(invisible, '')

/** A stranger's text, of which no mail program makes a link. */
export const withoutLinks = (text: string) => piecesWithoutLinks([{ text, isForeign: true }]).join('')

/**
 * The texts of consecutive pieces, where no word that holds a part of a stranger's text becomes a link: `www.{{name}}` does not either. Other words
 * stay as they are.
 */
export function piecesWithoutLinks(pieces: readonly TextPiece[]): string[] {
  const whole = pieces.map(({ text }) => text).join('')
  const joints = foreignWords(whole, pieces).flatMap((word) => jointsOf(whole, word))
  let pieceEnd = 0
  let shownEnd = 0
  let next = 0
  return pieces.map(({ text }) => {
    pieceEnd += text.length
    let shown = ''
    // a joint that begins in one piece and ends in another is shown in the first
    for (let joint = joints[next]; joint && joint.begin < pieceEnd; joint = joints[++next]) {
      shown += `${whole.slice(shownEnd, joint.begin)}[${whole.slice(joint.begin, joint.end)}]`
      shownEnd = joint.end
    }
    shown += whole.slice(shownEnd, pieceEnd)
    shownEnd = Math.max(shownEnd, pieceEnd)
    return shown
  })
}

interface Span {
  readonly begin: number
  readonly end: number
}

/** The words with a character of a stranger. */
function foreignWords(whole: string, pieces: readonly TextPiece[]): Span[] {
  const foreign: Span[] = []
  let begin = 0
  for (const { text, isForeign } of pieces) {
    if (isForeign && text !== '') foreign.push({ begin, end: begin + text.length })
    begin += text.length
  }
  let next = 0
  return [...whole.matchAll(/\S+/g)]
    .map(({ index, 0: word }) => ({ begin: index, end: index + word.length }))
    .filter(({ begin, end }) => {
      while ((foreign[next]?.end ?? Number.POSITIVE_INFINITY) <= begin) next += 1
      return (foreign[next]?.begin ?? end) < end
    })
}

// with the forms that Unicode or the names of domains take for the same
const dot = /^[.\u3002\uff0e\uff61\u2024\ufe52]$/
const at = /^[@\uff20\ufe6b]$/
const colon = /^[:\uff1a\ufe55\ufe13]$/
const slash = /^[/\\\uff0f\uff3c\u2044\u2215\ufe68]$/
const digit = /^\p{N}$/u
/** A letter or digit; a character that is not seen counts, because a program may skip it. */
const ofLabel = /^[\p{L}\p{N}\p{M}\p{Cf}\p{Cs}\p{Co}]$/u
const endOfScheme = /^[\p{L}\p{N}\p{M}\p{Cf}\p{Cs}\p{Co}+.-]$/u
const endOfWord = /^[\s.,;!?)('"\u00bb\u201d\u2026]?$/u
const fourNumbers =
  /\p{N}[.\u3002\uff0e\uff61\u2024\ufe52]\p{N}{1,4}[.\u3002\uff0e\uff61\u2024\ufe52]\p{N}{1,4}[.\u3002\uff0e\uff61\u2024\ufe52]\p{N}/u
/** The schemes whose addresses Thunderbird finds with spaces in them. */
const spacedScheme = /(?:https?|ftp|file|mailto)$/i

/** What joins the parts of an address in a word. `3.5`, `10:30`, `e.g.` and the end of a sentence have no joints. */
function jointsOf(whole: string, { begin, end }: Span): Span[] {
  const joints: Span[] = []
  const isIpAddress = fourNumbers.test(whole.slice(begin, end))
  for (let index = begin; index < end; index += 1) {
    const jointEnd = endOfJoint(whole, index, index === begin, isIpAddress)
    if (jointEnd === index) continue
    joints.push({ begin: index, end: jointEnd })
    index = jointEnd - 1
  }
  return joints
}

/** The end of the joint that begins at the index; the index itself when none does. */
function endOfJoint(text: string, index: number, isFirst: boolean, isIpAddress: boolean): number {
  const [before, c, next] = [text.charAt(index - 1), text.charAt(index), characterAt(text, index + 1)]
  const isNumber = digit.test(before) && digit.test(next)
  if (slash.test(c)) return slash.test(next) ? endOfSlashes(text, index) : index
  if (isFirst) return index
  if (dot.test(c)) {
    if (isNumber) return isIpAddress ? index + 1 : index
    const isBeforeLabel = ofLabel.test(next) && ofLabel.test(characterAt(text, index + 1 + next.length))
    const isAfterWww = /www$/i.test(text.slice(Math.max(index - 3, 0), index)) && !endOfWord.test(next)
    return isBeforeLabel || isAfterWww ? index + 1 : index
  }
  if (at.test(c)) return endOfWord.test(next) ? index : index + 1
  if (!colon.test(c) || isNumber || !endOfScheme.test(before)) return index
  if (slash.test(next)) return endOfSlashes(text, index + 1)
  return endOfWord.test(next) && !spacedScheme.test(text.slice(Math.max(index - 6, 0), index)) ? index : index + 1
}

function characterAt(text: string, index: number): string {
  const point = text.codePointAt(index)
  return point === undefined ? '' : String.fromCodePoint(point)
}

function endOfSlashes(text: string, index: number): number {
  let end = index
  while (slash.test(text.charAt(end))) end += 1
  return end
}
