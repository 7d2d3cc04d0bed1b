/** Gives root up for good, in every thread of this process. The user has no other group than that of the same number. */
export function becomeUser(uid: number): void {
  process.setgroups?.([])
  process.setgid?.(uid)
  process.setuid?.(uid)
}
