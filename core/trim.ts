/** The text without any of these characters at its end. Linear, which the pattern `/x+$/` is not: it starts over at every character. */
export function withoutEnd(text: string, character: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === character) end -= 1
  return text.slice(0, end)
}
