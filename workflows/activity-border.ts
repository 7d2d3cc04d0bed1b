import { ApplicationFailure, ApplicationFailureCategory, CancelledFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory } from '@temporalio/worker'
import { AppError } from '../core/errors.ts'
import { refusalState } from '../infra/db/errors.ts'
import type { Services } from '../services/services.ts'
import { forgetStuck, recordStuck } from '../services/stuck-activities.ts'
import { platformFailures } from './contract/failures.ts'

/** An activity that fails more often is shown to the operator. */
const stuckAfterAttempts = 10
/** Rows that another transaction has just changed may make a statement fail once or twice. */
const attemptsOfRefused = 3
const maxErrorLength = 300

/**
 * The interceptor of every activity: a failure that cannot heal becomes final, told from one that can by its kind, and one that keeps failing is
 * shown to the operator until it has ended.
 */
export const activityBorder =
  ({ db, log }: Pick<Services, 'db' | 'log'>): ActivityInterceptorsFactory =>
  ({ info, cancellationSignal }) => {
    const { attempt, activityType: type, activityId: activity_id, workflowExecution } = info
    const activity = { workflow_id: workflowExecution?.workflowId ?? '', activity_id }
    const isStuck = attempt > stuckAfterAttempts

    /** An activity does not fail because it cannot be shown. */
    const show = (change: Promise<void>) =>
      change.catch((error: Error) => log.warn({ err: error, ...activity }, 'stuck activity not recorded'))

    return {
      inbound: {
        async execute(input, next) {
          try {
            const result = await next(input)
            if (isStuck) await show(forgetStuck(db, activity))
            return result
          } catch (error) {
            if (cancellationSignal.aborted || error instanceof CancelledFailure) throw error
            const failure = attempt >= attemptsOfRefused ? finalFailure(error) : undefined
            if (failure) log.error({ err: error, ...activity, type, attempt }, 'activity failed for good')
            if (isStuck && !isExpected(error)) {
              const ended = failure !== undefined || isFinal(error)
              await show(
                ended
                  ? forgetStuck(db, activity)
                  : recordStuck(db, { ...activity, type, attempts: attempt, error: textOf(error) }),
              )
            }
            throw failure ?? error
          }
        },
      },
    }
  }

/** Undefined for a failure that may heal. The text of the error stays with us, because it may hold what a user has sent. */
function finalFailure(error: unknown): ApplicationFailure | undefined {
  const state = refusalState(error)
  if (state !== undefined) return final(`PostgreSQL refused it, SQLSTATE ${state}`, platformFailures.database)
  if (error instanceof AppError && !mayHeal.has(error.kind)) return final(error.message, error.kind)
  return isProgrammingError(error) ? final(`a programming error (${error.name})`, platformFailures.bug) : undefined
}

const final = (message: string, type: string) => ApplicationFailure.create({ message, type, nonRetryable: true })

const mayHeal: ReadonlySet<string> = new Set<AppError['kind']>(['unavailable', 'too_many_requests'])

/** The client of HTTP throws a TypeError with a cause when a server is away. */
const isProgrammingError = (error: unknown): error is Error =>
  (error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError) &&
  error.cause === undefined &&
  !('code' in error)

const isExpected = (error: unknown) => error instanceof ApplicationFailure && error.category === ApplicationFailureCategory.BENIGN
const isFinal = (error: unknown) => error instanceof ApplicationFailure && error.nonRetryable === true

function textOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return (text.split('\n', 1)[0] ?? '').slice(0, maxErrorLength)
}
