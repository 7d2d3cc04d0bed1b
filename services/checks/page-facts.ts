import { Tokenizer, type TokenizerCallbacks } from 'htmlparser2'
import { internalPath } from '../../core/checks/links.ts'
import type { PageFacts } from '../../core/checks.ts'

const maxLinks = 500

/**
 * Reads the facts of a page. It uses the tokenizer alone: the parser above it keeps a stack of open elements, which costs
 * quadratic time on a page of nothing but opening tags.
 */
export function readPageFacts(html: string): PageFacts {
  const reader = createReader(html)
  const tokenizer = new Tokenizer({}, reader.callbacks)
  tokenizer.write(html)
  tokenizer.end()
  return reader.facts()
}

type Attributes = ReadonlyMap<string, string>

/** The attributes that are read; the values of others are never copied. */
const telling = new Set(
  'alt aria-hidden content data height href http-equiv lang name poster rel role src srcset type width'.split(' '),
)
/** The tags whose attributes are read, with their readers. */
const readers: Readonly<Record<string, (page: Page, attributes: Attributes) => void>> = {
  html: (page, attributes) => {
    page.isDocument = true
    page.hasLang ||= Boolean(attributes.get('lang')?.trim())
  },
  head: (page) => {
    page.isDocument = true
  },
  body: (page) => {
    page.isDocument = true
  },
  base: (page, attributes) => {
    page.base ??= attributes.get('href')?.trim()
  },
  meta: readMeta,
  link: readLink,
  script: readScript,
  img: (page, attributes) => {
    if (!attributes.has('alt') && !isHiddenImage(attributes)) page.imagesWithoutAlt += 1
    page.load(attributes.get('src'))
    page.loadSet(attributes.get('srcset'))
  },
  source: (page, attributes) => {
    page.load(attributes.get('src'))
    page.loadSet(attributes.get('srcset'))
  },
  video: (page, attributes) => {
    page.load(attributes.get('src'))
    page.load(attributes.get('poster'))
  },
  audio: (page, attributes) => page.load(attributes.get('src')),
  track: (page, attributes) => page.load(attributes.get('src')),
  iframe: (page, attributes) => page.load(attributes.get('src')),
  embed: (page, attributes) => page.load(attributes.get('src')),
  object: (page, attributes) => page.load(attributes.get('data')),
  a: (page, attributes) => page.refer(attributes.get('href')),
  area: (page, attributes) => page.refer(attributes.get('href')),
}

type Page = ReturnType<typeof createPage>

function createPage() {
  const links = new Set<string>()
  const page = {
    isDocument: false,
    hasTitle: false,
    hasLang: false,
    hasViewport: false,
    hasDescription: false,
    hasIcon: false,
    isUnlisted: false,
    forwards: false,
    mayRoute: false,
    imagesWithoutAlt: 0,
    insecure: { count: 0, first: '' },
    base: undefined as string | undefined,
    links,
    /** A reference that visitors may follow. */
    refer: (reference: string | undefined): void => {
      if (reference === undefined || links.size >= maxLinks) return
      const path = internalPath(reference)
      if (path !== undefined) links.add(path)
    },
    /** A reference that browsers load with the page. */
    load: (reference: string | undefined): void => {
      if (reference === undefined) return
      if (isInsecure(reference)) {
        page.insecure.count += 1
        page.insecure.first ||= reference.trim().slice(0, 200)
      } else page.refer(reference)
    },
    loadSet: (candidates: string | undefined): void => {
      if (candidates === undefined || candidates.length > maxSetLength) return
      for (const candidate of candidates.split(/,\s+/)) page.load(candidate.trim().split(/\s/, 1)[0])
    },
  }
  return page
}

const maxSetLength = 16_384
/** Whether a browser would refuse the address as insecure; those of the local machine are allowed. */
const isInsecure = (reference: string) => /^\s*http:\/\/(?!localhost\b|127\.|\[::1\])/i.test(reference)

/** Whether an image is not meant to be seen: it is hidden, or a tracking pixel. */
function isHiddenImage(attributes: Attributes): boolean {
  const role = attributes.get('role')
  if (attributes.get('aria-hidden') === 'true' || role === 'presentation' || role === 'none') return true
  return /^[01]$/.test(attributes.get('width') ?? '') && /^[01]$/.test(attributes.get('height') ?? '')
}

function readMeta(page: Page, attributes: Attributes): void {
  const content = attributes.get('content')?.trim() ?? ''
  const name = attributes.get('name')?.trim().toLowerCase()
  if (name === 'viewport') page.hasViewport = true
  if (name === 'description' && content !== '') page.hasDescription = true
  if (name === 'robots' && /noindex|none/i.test(content)) page.isUnlisted = true
  if (attributes.get('http-equiv')?.toLowerCase() === 'refresh' && /url/i.test(content)) page.forwards = true
}

/** Relations whose target the site must have; others name hosts, profiles or the page itself. */
const loadedRelations = /\b(?:stylesheet|icon|manifest|preload|modulepreload|apple-touch-icon)\b/i

function readLink(page: Page, attributes: Attributes): void {
  const relation = attributes.get('rel') ?? ''
  if (/(?:^|\s)icon(?:\s|$)/i.test(relation)) page.hasIcon = true
  if (loadedRelations.test(relation)) page.load(attributes.get('href'))
  else if (/\balternate\b/i.test(relation)) page.refer(attributes.get('href'))
}

const isProgram = (type: string | undefined) => !type || /javascript|ecmascript|^module$|babel|jsx|typescript/i.test(type)

/** A script file of the site may handle navigation. An inline script counts only when it says so, because most count visits or switch themes. */
function readScript(page: Page, attributes: Attributes): void {
  const source = attributes.get('src')
  page.load(source)
  if (!isProgram(attributes.get('type'))) return
  if (source !== undefined ? internalPath(source) !== undefined : attributes.get('type') === 'module') page.mayRoute = true
}

const routes = /\bimport\s*\(|pushState|popstate|hashchange|router/i

/** Reads the tokens of one page, each in time linear to its length. */
function createReader(html: string) {
  const page = createPage()
  let read: ((page: Page, attributes: Attributes) => void) | undefined
  let attributes = new Map<string, string>()
  let name = ''
  let value = ''
  let tag = ''
  let foreignDepth = 0
  // decided once per tag: a page may have a long type, followed by many pieces of text
  let inProgram = false

  const endTag = () => {
    inProgram = tag === 'script' && isProgram(attributes.get('type'))
    read?.(page, attributes)
    read = undefined
  }
  const callbacks: TokenizerCallbacks = {
    onopentagname(start, end) {
      tag = nameOf(html, start, end)
      if (isForeignTag(tag)) foreignDepth += 1
      read = Object.hasOwn(readers, tag) ? readers[tag] : undefined
      if (read && attributes.size > 0) attributes = new Map()
    },
    onopentagend: endTag,
    onselfclosingtag() {
      endTag()
      if (isForeignTag(tag)) foreignDepth -= 1
    },
    onclosetag(start, end) {
      tag = ''
      if (foreignDepth > 0 && isForeignTag(nameOf(html, start, end))) foreignDepth -= 1
    },
    onattribname(start, end) {
      name = read ? nameOf(html, start, end) : ''
      value = ''
    },
    onattribdata(start, end) {
      if (telling.has(name)) value += html.slice(start, end)
    },
    onattribentity(code) {
      if (telling.has(name)) value += String.fromCodePoint(code)
    },
    onattribend() {
      if (telling.has(name) && !attributes.has(name)) attributes.set(name, value)
    },
    ontext(start, end) {
      if (tag === 'title' && foreignDepth === 0) page.hasTitle ||= /\S/.test(html.slice(start, end))
      else if (tag === 'script' && inProgram) page.mayRoute ||= routes.test(html.slice(start, end))
    },
    ontextentity(code) {
      if (tag === 'title' && foreignDepth === 0) page.hasTitle ||= /\S/.test(String.fromCodePoint(code))
    },
    ondeclaration() {
      page.isDocument = true
    },
    isInForeignContext: () => foreignDepth > 0,
    oncdata() {},
    oncomment() {},
    onprocessinginstruction() {},
    onend() {},
  }
  const facts = (): PageFacts => {
    const { refer: _refer, load: _load, loadSet: _loadSet, links, ...facts } = page
    return { ...facts, links: [...links] }
  }
  return { callbacks, facts }
}

const maxNameLength = 12
/** The name in lower case; empty for names longer than any that matters. */
const nameOf = (html: string, start: number, end: number) =>
  end - start > maxNameLength ? '' : html.slice(start, end).toLowerCase()

/** In SVG and MathML, a title is not the page's, and a script is plain markup. */
const isForeignTag = (tag: string) => tag === 'svg' || tag === 'math'
