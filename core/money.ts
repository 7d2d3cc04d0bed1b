import type { PageLanguage } from './page-language.ts'

/** How many digits the smallest unit of a currency takes (ISO 4217); two for those that are in neither list. */
const withoutDigits = 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'.split(' ')
const withThreeDigits = 'BHD IQD JOD KWD LYD OMR TND'.split(' ')

/** How many digits of an amount in the smallest unit stand after the decimal point. @param currency ISO 4217, in upper case */
function minorDigits(currency: string): number {
  if (withoutDigits.includes(currency)) return 0
  return withThreeDigits.includes(currency) ? 3 : 2
}

export interface Price {
  /** In the smallest unit of the currency. */
  readonly amount_minor: number
  /** ISO 4217, in upper case. */
  readonly currency: string
}

/** An amount as readers of the language write it; whole amounts without decimals. */
export function priceText({ amount_minor, currency }: Price, lang: PageLanguage): string {
  const digits = minorDigits(currency)
  const format = new Intl.NumberFormat(lang, {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    trailingZeroDisplay: 'stripIfInteger',
  })
  return format.format(amount_minor / 10 ** digits)
}
