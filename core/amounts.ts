const KiB = 1024
const MiB = 1024 * KiB

/** `1 file`, `2 files` */
export const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

export function sizeText(bytes: number): string {
  if (bytes < KiB) return counted(bytes, 'byte')
  return bytes < MiB ? `${Math.ceil(bytes / KiB)} KB` : `${(bytes / MiB).toFixed(1)} MB`
}
