const dayMs = 86_400_000
/** Moscow has no daylight saving time: it is at UTC+3 all year. */
const moscowOffsetMs = 3 * 3_600_000

/** The date in Moscow, YYYY-MM-DD, of an instant in milliseconds. */
export const moscowDay = (ms: number): string => new Date(ms + moscowOffsetMs).toISOString().slice(0, 10)

/** The date that is so many days later, or earlier for a negative number. */
export const addDays = (day: string, days: number): string => new Date(Date.parse(day) + days * dayMs).toISOString().slice(0, 10)

/** How many days later the second date is; negative when it is earlier. */
export const daysBetween = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / dayMs

/** The statistics of a day are kept for 400 days. */
export const statsPeriodMs = 400 * dayMs
