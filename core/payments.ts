/** `manual`: the owner takes the money and says so. `test`: a page with two buttons, for trying out. */
export const paymentProviderNames = ['manual', 'test', 'yookassa', 'stripe'] as const
export type PaymentProviderName = (typeof paymentProviderNames)[number]
