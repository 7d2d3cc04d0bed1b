import type { AutoreplyInput } from './autoreply.ts'
import type { OrderInput } from './certificates.ts'
import type { CodeInput } from './codes.ts'
import type { CompressionInput } from './compression.ts'
import type { DeployInput } from './deploys.ts'
import type { DomainInput } from './domains.ts'
import type { EmailInput } from './emails.ts'
import type { DigestInput } from './forms.ts'
import type { WorkflowSignal, WorkflowStart } from './messages.ts'
import type { CheckoutInput } from './payments.ts'
import type { ForgeReportsInput } from './reports.ts'
import type { SubdomainChangeInput, TrashInput } from './sites.ts'
import type { ScrubInput, SweepInput } from './storage.ts'
import type { DeliveryInput } from './webhooks.ts'

/** The input of each workflow type, which is the name of its function. */
export interface WorkflowInputs {
  readonly deploy: DeployInput
  readonly connectDomain: DomainInput
  readonly issueCertificate: OrderInput
  readonly expireTrashedSite: TrashInput
  readonly switchSubdomain: SubdomainChangeInput
  readonly reportToForge: ForgeReportsInput
  readonly sendEmail: EmailInput
  readonly sendCode: CodeInput
  readonly emailSubmissions: DigestInput
  readonly sendAutoreply: AutoreplyInput
  readonly deliverWebhook: DeliveryInput
  readonly followCheckout: CheckoutInput
  readonly compressFiles: CompressionInput
  readonly sweepStorage: SweepInput
  readonly scrubStorage: ScrubInput
  /** The rest take no input. */
  readonly rollUpStats: undefined
  readonly recheckDomains: undefined
  readonly renewCertificates: undefined
  readonly registerMessengers: undefined
}

export type WorkflowType = keyof WorkflowInputs

/** A start of one of these workflows, with its input. */
export type RegisteredStart = {
  [Type in WorkflowType]: WorkflowInputs[Type] extends object ? WorkflowStart<Type, WorkflowInputs[Type]> : never
}[WorkflowType]

/** A signal to one of these workflows. */
export type RegisteredSignal = WorkflowSignal<RegisteredStart>
