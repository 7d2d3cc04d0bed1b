import type { WorkflowStart } from './messages.ts'

export interface CodeInput {
  readonly code_id: string
}

/** `dropped`: the address has no access, or has been sent enough codes. `failed`: refused by the mail server, or over before it was taken. */
export type CodeResult = 'sent' | 'kept' | 'dropped' | 'failed'

/** Activities of the control queue, implemented in `activities/codes.ts`. */
export interface CodeActivities {
  /** Decides whether a login code is emailed, once, and sends it. A repetition sends it twice only when the answer of the mail server was lost. */
  sendCode(input: CodeInput): Promise<CodeResult>
}

/** Holds neither the address nor the code, because Temporal does not encrypt what it stores. */
export const codeStart = (code: {
  readonly code_id: string
  readonly site_id: string
  readonly project_id: string
}): WorkflowStart<'sendCode', CodeInput> => ({
  workflow_id: `code:${code.code_id}`,
  type: 'sendCode',
  input: { code_id: code.code_id },
  summary: 'login code for a closed site',
  attributes: { ProjectId: code.project_id, SiteId: code.site_id, Trigger: 'api' },
})
