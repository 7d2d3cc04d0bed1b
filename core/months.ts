/** The first day of the UTC calendar month that the instant lies in, such as `2026-09-01`. */
export const monthOf = (now: Date) => `${now.toISOString().slice(0, 7)}-01`
