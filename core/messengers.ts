/** The messengers whose channels can close a site. */
export const messengerNames = ['telegram', 'max'] as const
export type MessengerName = (typeof messengerNames)[number]
