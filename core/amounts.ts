const KiB = 1024
const MiB = 1024 * KiB

/** `1 file`, `2 files` */
export const counted = (count: number, noun: string, plural = `${noun}s`) => `${count} ${count === 1 ? noun : plural}`

export function sizeText(bytes: number): string {
  if (bytes < KiB) return counted(bytes, 'byte')
  return bytes < MiB ? `${Math.ceil(bytes / KiB)} KB` : `${(bytes / MiB).toFixed(1)} MB`
}
