/** The value below which that share of the values lies; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

export const median = (values: readonly number[]) => quantile(values, 0.5)

export const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

/** How far a mean of so many values probably is from the true one. */
export function standardError(values: readonly number[]): number {
  const middle = mean(values)
  const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1)
  return Math.sqrt(variance / values.length)
}
