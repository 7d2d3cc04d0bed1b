import { sendDigest } from '../../services/forms/digests.ts'
import type { Services } from '../../services/services.ts'
import type { FormActivities } from '../contract/forms.ts'

export const createFormActivities = (services: Services): FormActivities => ({
  sendDigest: (input) => sendDigest(services, input),
})
