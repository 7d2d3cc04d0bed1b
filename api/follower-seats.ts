import { tooManyRequests, unavailable } from '../core/errors.ts'

export interface SeatLimits {
  readonly server: number
  readonly project: number
  /** What a project has too many of, such as `logs`, and what can be done instead. */
  readonly texts: { readonly project: (taken: number) => string; readonly server: string }
}

/** Bounds how many endless responses of one kind this process gives at once, and how many of them to one project. */
export interface FollowerSeats {
  /** @throws AppError `too_many_requests`, `unavailable` */
  take(projectId: string): Disposable
}

export function createFollowerSeats({ server, project, texts }: SeatLimits): FollowerSeats {
  const ofProjects = new Map<string, number>()
  let taken = 0
  return {
    take(projectId) {
      const ofProject = ofProjects.get(projectId) ?? 0
      if (ofProject >= project) throw tooManyRequests(texts.project(ofProject), 10)
      if (taken >= server) throw unavailable(texts.server)
      taken += 1
      ofProjects.set(projectId, ofProject + 1)
      return {
        [Symbol.dispose]() {
          taken -= 1
          const left = (ofProjects.get(projectId) ?? 1) - 1
          if (left > 0) ofProjects.set(projectId, left)
          else ofProjects.delete(projectId)
        },
      }
    },
  }
}
