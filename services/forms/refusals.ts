import { AppError, type ErrorDetails } from '../../core/errors.ts'
import { type FormReason, formReasons } from '../../core/forms.ts'

/** The refusal of a post to the form endpoint; its code is the reason in the body. */
export const formRefusal = (reason: FormReason, message: string, details: ErrorDetails = {}) =>
  new AppError(formReasons[reason], message, { ...details, code: reason })
