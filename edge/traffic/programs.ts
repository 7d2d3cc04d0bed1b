import { getParser } from 'bowser'
import { isbot } from 'isbot'
import { LRUCache } from 'lru-cache'

/** What a `User-Agent` tells. */
export interface Program {
  readonly isBot: boolean
  readonly device: 'desktop' | 'mobile' | 'tablet' | 'tv' | 'bot' | 'other'
}

export interface Programs {
  of(userAgent: string): Program
  /** Begins a period of its own for {@link maxNewPrograms} and {@link maxGuesses}. */
  startPeriod(): void
}

const maxKnown = 2000
/**
 * Programs that bowser looks at between two calls of `startPeriod`, with patterns that take up to 0.1 ms for one. A visitor can invent any number
 * of programs, and those of other sites have to be known all the same: beyond it devices are guessed from a few words until the next period.
 */
const maxNewPrograms = 500
/** isbot takes up to 25 µs for one. Beyond these programs all are taken for browsers of an unknown kind until the next period. */
const maxGuesses = 5000
/** Bowser looks at so many characters, because its patterns take time with the square of the length. */
const maxDeviceCharacters = 256

const unknown: Program = { isBot: false, device: 'other' }
const devices: ReadonlySet<string> = new Set<Program['device']>(['desktop', 'mobile', 'tablet', 'tv', 'bot'])
const isDevice = (text: string | undefined): text is Program['device'] => text !== undefined && devices.has(text)

/** Tells bots (isbot) and devices (bowser) apart, and remembers them. */
export function createPrograms(): Programs {
  const known = new LRUCache<string, Program>({ max: maxKnown })
  let looked = 0
  let guessed = 0
  return {
    of(userAgent) {
      if (userAgent === '') return unknown
      const found = known.get(userAgent)
      if (found) return found
      if (looked >= maxNewPrograms) {
        guessed += 1
        return guessed > maxGuesses ? unknown : guess(userAgent)
      }
      looked += 1
      const program = lookAt(userAgent)
      known.set(userAgent, program)
      return program
    },
    startPeriod() {
      looked = 0
      guessed = 0
    },
  }
}

const bot: Program = { isBot: true, device: 'bot' }

function lookAt(userAgent: string): Program {
  if (isbot(userAgent)) return bot
  const device: string | undefined = getParser(userAgent.slice(0, maxDeviceCharacters), true).getPlatformType(true)
  return { isBot: false, device: isDevice(device) ? device : 'other' }
}

/** Words that tell the device of nearly every browser, the first that applies. */
const deviceWords: readonly (readonly [RegExp, Program['device']])[] = [
  [/iPad|Tablet/, 'tablet'],
  [/TV\b|Tizen|Web0S/, 'tv'],
  [/Mobi|iPhone|Opera Mini/, 'mobile'],
  [/Android/, 'tablet'],
  [/Windows NT|Macintosh|X11; (?:Linux|Ubuntu)/, 'desktop'],
]

function guess(userAgent: string): Program {
  if (isbot(userAgent)) return bot
  const [, device = 'other'] = deviceWords.find(([words]) => words.test(userAgent)) ?? []
  return { isBot: false, device }
}
