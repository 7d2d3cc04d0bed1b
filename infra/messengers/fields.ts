import { z } from 'zod'

// Messengers send more than we read, so every object may have other members.

/** An id that the messenger sends as a number. Larger ones would have lost digits. */
export const numericId = z.int().transform(String)

/** A name that becomes a part of an address. */
export const publicName = z.string().regex(/^\w{1,64}$/)

/** The text, of which only the beginning is looked at. */
export const shortText = (maxLength: number) => z.string().transform((text) => text.slice(0, maxLength))
