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
  /** Begins a period of its own for {@link maxNewPrograms}. */
  startPeriod(): void
}

const maxKnown = 2000
/**
 * Programs that are looked at between two calls of `startPeriod`. A visitor can invent any number of them, and the patterns of bowser take up to
 * 0.1 ms for one: those beyond it are taken for browsers of an unknown kind until the next period.
 */
const maxNewPrograms = 500
/** Bowser looks at so many characters, because its patterns take time with the square of the length. */
const maxDeviceCharacters = 256

const unknown: Program = { isBot: false, device: 'other' }
const devices: ReadonlySet<string> = new Set<Program['device']>(['desktop', 'mobile', 'tablet', 'tv', 'bot'])
const isDevice = (text: string | undefined): text is Program['device'] => text !== undefined && devices.has(text)

/** Tells bots (isbot) and devices (bowser) apart, and remembers them. */
export function createPrograms(): Programs {
  const known = new LRUCache<string, Program>({ max: maxKnown })
  let looked = 0
  return {
    of(userAgent) {
      if (userAgent === '') return unknown
      const found = known.get(userAgent)
      if (found) return found
      looked += 1
      if (looked > maxNewPrograms) return unknown
      const program = lookAt(userAgent)
      known.set(userAgent, program)
      return program
    },
    startPeriod() {
      looked = 0
    },
  }
}

function lookAt(userAgent: string): Program {
  if (isbot(userAgent)) return { isBot: true, device: 'bot' }
  const device: string | undefined = getParser(userAgent.slice(0, maxDeviceCharacters), true).getPlatformType(true)
  return { isBot: false, device: isDevice(device) ? device : 'other' }
}
