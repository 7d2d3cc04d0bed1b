export const word = 'loaded late'
