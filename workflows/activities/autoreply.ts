import { decideAutoreply } from '../../services/autoreply/decide.ts'
import type { Services } from '../../services/services.ts'
import type { AutoreplyActivities } from '../contract/autoreply.ts'

export const createAutoreplyActivities = (services: Services): AutoreplyActivities => ({
  decideAutoreply: ({ submission_id }) => decideAutoreply(services, submission_id),
})
