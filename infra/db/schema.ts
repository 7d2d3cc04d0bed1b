import type { Generated } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import type { Recommendation } from '../../core/checks/recommendation.ts'
import type { BuildMode, DeployStatus, GitSource, SourceKind } from '../../core/deploy.ts'
import type { ARecordVerdict, Diagnostics } from '../../core/domains.ts'
import type { SubmissionData, SubmissionStatus } from '../../core/forms.ts'
import type { Forge } from '../../core/git-events.ts'
import type { ConsentMode, FormStyle, MemberStatus } from '../../core/members.ts'
import type { MessengerName } from '../../core/messengers.ts'
import type { NotificationKind } from '../../core/notifications.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import type { CheckoutProviderName, CheckoutStatus, PaymentProviderName, PaymentStatus } from '../../core/payments.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Scope } from '../../core/scopes.ts'
import type { TopKind } from '../../core/traffic.ts'
import type { VariableContext } from '../../core/variables.ts'
import type { WebhookEvent } from '../../core/webhooks.ts'

// Longer than other files, because it is one list of all tables. The tables after all migrations; test/db/schema.test.ts compares every column with PostgreSQL.

interface Projects {
  id: Generated<string>
  name: string
  owner_email: string
  plan: PlanName
  suspended: Generated<boolean>
  suspended_reason: string | null
  erasing: Generated<boolean>
  form_balance: Generated<number>
  blob_bytes: Generated<number>
  hidden_no: Generated<number>
  revealed_no: Generated<number>
  created_at: Generated<Date>
}

interface Keys {
  id: string
  project_id: string
  name: string
  scope: Scope
  secret_sha256: Buffer
  created_at: Generated<Date>
  last_used_at: Date | null
  revoked_at: Date | null
}

interface Sites {
  id: Generated<string>
  project_id: string
  name: string
  description: string | null
  subdomain: string
  enabled: Generated<boolean>
  checks_enabled: Generated<boolean>
  canonical_urls: Generated<boolean>
  install_command: string | null
  build_command: string | null
  output_dir: string | null
  root_dir: string | null
  node_version: string | null
  deletion_scheduled_at: Date | null
  purging: Generated<boolean>
  email_access: Generated<boolean>
  previews_closed: Generated<boolean>
  permanent_links: Generated<boolean>
  permanent_links_generation: Generated<number>
  asset_retention_days: Generated<number>
  retained_sha256: string | null
  active_deploy_id: string | null
  last_deploy_seq: Generated<number>
  version: Generated<number>
  route_changed_at: Generated<Date>
  created_at: Generated<Date>
  updated_at: Generated<Date>
}

interface SiteVariables {
  site_id: string
  name: string
  value_sealed: string
  bytes: number
  secret: boolean
  contexts: VariableContext[]
  updated_at: Date
}

interface Deploys {
  id: Generated<string>
  site_id: string
  project_id: string
  seq: number
  status: Generated<DeployStatus>
  attempt: Generated<number>
  run_id: string | null
  turn_at: Date | null
  fetch_after: Date | null
  source_kind: SourceKind
  build_mode: BuildMode | null
  activate: boolean
  is_preview: boolean
  artifacts_purged: Generated<boolean>
  error: string | null
  skipped_paths: Generated<string[]>
  file_count: number | null
  total_bytes: number | null
  source_sha256: string | null
  source_bytes: number | null
  manifest_sha256: string | null
  git: GitSource | null
  build_seconds: number | null
  recommendations: Recommendation[] | null
  created_at: Generated<Date>
  started_at: Date | null
  finished_at: Date | null
  activated_at: Date | null
  git_preview_id: string | null
  title: string | null
  cancelled: Generated<boolean>
  fetch_commit: string | null
  compression_due_at: Date | null
}

interface PreviewLinks {
  id: string
  site_id: string
  git_preview_id: string | null
  deploy_id: string | null
  generation: Generated<number>
  token_sha256: string | null
  issued_at: Date | null
}

interface Blobs {
  project_id: string
  sha256: string
  size: number
  deploys: number
  staged: Generated<boolean>
  touched_at: Generated<Date>
  compressed: Generated<boolean>
}

interface RetainedAssets {
  site_id: string
  path: string
  project_id: string
  deploy_id: string
  sha256: string
  size: number
  retained_at: Date
}

interface ReleasedObjects {
  sha256: string
  released_at: Date
  published: boolean
}

interface SweptObjects {
  sha256: string
  removed_at: Date | null
}

interface Uploads {
  id: Generated<string>
  project_id: string
  bytes: number
  started_at: Date
}

interface VerifiedPrefixes {
  prefix: string
  verified_at: Date
  objects: number
  bytes: number
}

interface DamagedObjects {
  sha256: string
  found_at: Date
  repaired_at: Date | null
}

interface BuildMinutes {
  project_id: string
  month: string
  minutes: number
}

interface WorkflowStarts {
  workflow_id: string
  message: unknown
  created_at: Generated<Date>
  id: Generated<string>
  signal: string | null
  /** How often Temporal has refused it. */
  attempts: Generated<number>
  next_attempt_at: Generated<Date>
  last_error: string | null
  /** Since when it is sent only if the operator asks for it. */
  dead_at: Date | null
}

/** An activity that has failed more than ten times, until it succeeds or its workflow ends. */
interface StuckActivities {
  workflow_id: string
  activity_id: string
  type: string
  attempts: number
  error: string
  first_failed_at: Date
  last_failed_at: Date
}

/**
 * `current`: the site answers there. `pending`: it will answer there after a change; if the name is a former one, it redirects until then.
 * `former`: it redirects until `held_until`. `quarantined`: its site was removed, and only the same project may take the name before
 * `held_until`.
 */
export type SubdomainKind = 'current' | 'pending' | 'former' | 'quarantined'

interface Subdomains {
  subdomain: string
  site_id: string | null
  project_id: string
  kind: SubdomainKind
  held_until: Date | null
}

interface SubdomainChanges {
  id: Generated<string>
  site_id: string
  old_subdomain: string
  new_subdomain: string
  requested_at: Date
  switch_at: Date
  cancelled_at: Date | null
  switched_at: Date | null
}

/** `kept`: no mail server is set. `failed`: the mail server does not accept it. */
export type EmailOutcome = 'sent' | 'kept' | 'failed'

interface Mails {
  id: Generated<string>
  project_id: string
  sender: string
  recipient: string
  subject: string
  text: string
  html: string
  created_at: Date
  outcome: EmailOutcome | null
  sent_at: Date | null
  kind: string
  about: string
  suppressed: Generated<number>
  submission_id: string | null
  reply_to: string | null
}

interface Domains {
  id: Generated<string>
  project_id: string
  site_id: string
  domain: string
  verification_token: string
  attempt: Generated<number>
  verified_at: Date | null
  proven_at: Date | null
  missing_since: Date | null
  connecting_since: Generated<Date>
  connected_at: Date | null
  looked_up_at: Date | null
  next_check_at: Date | null
  a_record: ARecordVerdict | null
  diagnostics: Diagnostics | null
  created_at: Date
  claimed_at: Generated<Date>
}

interface ReleasedDomains {
  project_id: string
  domain: string
  claimed_at: Date | null
  looked_up_at: Date | null
  released_at: Date
}

interface Allowances {
  project_id: string
  kind: string
  taken_at: Date[]
}

interface Certificates {
  id: Generated<string>
  domain_id: string | null
  name: string
  certificate: string | null
  key_sealed: string | null
  not_before: Date | null
  not_after: Date | null
  renew_at: Date | null
  issued_by: string | null
  ordered_at: Date | null
  order_id: string | null
  tries: Generated<number>
  next_try_at: Date | null
  error: string | null
  version: Generated<number>
  changed_at: Generated<Date>
}

interface DnsChallenges {
  name: string
  value: string
  created_at: Date
}

/** The latest webhook delivery of a forge, as the owner of the site sees it. */
export interface LastDelivery {
  /** RFC 3339 */
  readonly at: string
  readonly forge: Forge
  readonly event: string
  /** The result of the delivery. */
  readonly result: string
}

/** The result of the latest report to a forge, as the owner sees it. */
export interface LastReport {
  /** RFC 3339 */
  readonly at: string
  /** Null when the forge accepted it. */
  readonly error: string | null
}

interface GitConnections {
  site_id: string
  project_id: string
  repo_url: string
  branch: string
  token_sealed: string | null
  install_command: string | null
  build_command: string | null
  output_dir: string | null
  root_dir: string | null
  branch_previews: boolean
  pull_request_previews: boolean
  watch_paths: string[]
  webhook_secret_sealed: string | null
  webhook_created_at: Date | null
  forge: Forge | null
  last_delivery: LastDelivery | null
  last_report: LastReport | null
  deploy_hook_sha256: string | null
  deploy_hook_created_at: Date | null
  deploy_hook_used_at: Date | null
  created_at: Date
  updated_at: Date
}

interface GitDeliveries {
  site_id: string
  delivery_id: string
  received_at: Date
}

interface BranchPreviews {
  id: Generated<string>
  site_id: string
  project_id: string
  ref: string
  fetch_ref: string
  pull_request: number | null
  branch: string
  from_fork: boolean
  approved: boolean
  head_commit: string | null
  updated_at: Date
  closed_at: Date | null
  comment_id: string | null
  commented: string | null
}

interface GitReports {
  deploy_id: string
  site_id: string
  reported: string | null
  deployment_id: string | null
}

interface BuildTotals {
  outcome: string
  builds: number
  milliseconds: number
}

interface FormSubmissions {
  id: Generated<string>
  project_id: string
  site_id: string
  status: SubmissionStatus
  charged: boolean
  hidden_no: number | null
  data: SubmissionData
  request_id: string | null
  user_agent: string | null
  created_at: Date
  email_pending: Generated<boolean>
}

interface SiteForms {
  site_id: string
  project_id: string
  notify_email: Generated<boolean>
  verified: Generated<number>
  spam: Generated<number>
  archive: Generated<number>
  hidden: Generated<number>
  digest_no: Generated<number>
  digest_at: Date | null
  digests: Generated<number>
  notified_at: Date | null
}

interface FormUsage {
  project_id: string
  month: string
  shard: number
  used: Generated<number>
  granted: Generated<number>
  granted_of: number | null
}

interface Rates {
  key: string
  taken_at: Date[]
}

interface Autoreplies {
  site_id: string
  project_id: string
  enabled: boolean
  subject: string
  body: string
  email_field: string
  updated_at: Date
}

interface AutoreplyUsage {
  project_id: string
  month: string
  emails: number
}

interface DueAutoreplies {
  submission_id: string
  site_id: string
  project_id: string
  created_at: Date
}

interface DeliveryFiles {
  id: Generated<string>
  site_id: string
  project_id: string
  name: string
  label: string | null
  content_type: string
  sha256: string
  size: number
  downloads: Generated<number>
  created_at: Date
}

interface DeliveryPages {
  site_id: string
  project_id: string
  link_ttl_days: Generated<number>
  page_title: string | null
  upsell_text: string | null
  logo_sha256: string | null
  logo_size: number | null
  page_logo_framed: Generated<boolean>
  page_logo_rounded: Generated<boolean>
}

interface Notifications {
  id: Generated<string>
  project_id: string
  kind: NotificationKind
  title: string
  message: string
  site_id: string | null
  deploy_id: string | null
  created_at: Date
  read_at: Date | null
}

interface Webhooks {
  id: Generated<string>
  project_id: string
  site_id: string | null
  url: string
  secret_sealed: string
  events: WebhookEvent[]
  enabled: Generated<boolean>
  disabled_reason: string | null
  failing_since: Date | null
  overflowed_at: Date | null
  created_at: Date
}

export type EventData = Readonly<Record<string, string | number | boolean | null>>

interface WebhookEvents {
  id: Generated<string>
  project_id: string
  type: WebhookEvent
  data: EventData
  created_at: Date
}

/** One try of a delivery. */
export interface DeliveryTry {
  /** When it ended, as RFC 3339. */
  readonly at: string
  /** The HTTP status; null without a response. */
  readonly status: number | null
  readonly duration_ms: number
  /** Null for a success. */
  readonly error: string | null
}

export type DeliveryOutcome = 'delivered' | 'failed'

interface WebhookDeliveries {
  id: Generated<string>
  webhook_id: string
  event_id: string
  project_id: string
  tries: Generated<DeliveryTries>
  outcome: DeliveryOutcome | null
  trying_since: Date | null
  waiting_since: Date | null
  next_look_at: Date | null
  created_at: Date
  ended_at: Date | null
}

type DeliveryTries = readonly DeliveryTry[]

interface AccessLocks {
  site_id: string
  project_id: string
  mode: AccessMode
  epoch: Generated<string>
  sealed_password: string | null
  expires_at: Date | null
  max_opens: number | null
  opens_count: Generated<number>
  bypass_sha256: string | null
  updated_at: Date
}

export type FaviconMode = 'site' | 'custom' | 'none'

interface AccessBrands {
  site_id: string
  project_id: string
  title: string | null
  description: string | null
  logo_sha256: string | null
  logo_size: number | null
  logo_framed: Generated<boolean>
  logo_rounded: Generated<boolean>
  favicon_mode: Generated<FaviconMode>
  favicon_sha256: string | null
  favicon_size: number | null
}

interface AccessEmails {
  id: Generated<string>
  site_id: string
  project_id: string
  email: string
  label: string | null
  created_at: Date
  last_login_at: Date | null
}

interface AccessGenerations {
  site_id: string
  subject: string
  generation: number
  raised_at: Date
}

interface AccessCodes {
  id: Generated<string>
  site_id: string
  email: string
  code_sha256: string
  tries: Generated<number>
  created_at: Date
  confirmed_at: Date | null
  sealed_code: string | null
  host: string | null
  lang: PageLanguage | null
  device: string | null
  network: string | null
  sent_at: Generated<Date | null>
  other_tries: Generated<number>
}

interface AccessNetworks {
  site_id: string
  subject: string
  network: string
  entered_at: Date
}

interface AccessTickets {
  ticket_sha256: string
  site_id: string
  deploy_id: string
  epoch: string
  subject: string
  generation: number
  consent: number
  until: Date
  network: string
  created_at: Generated<Date>
}

interface AccessLogins {
  id: Generated<string>
  site_id: string
  access_email_id: string | null
  email_masked: string
  device: string
  ip_masked: string
  result: string
  at: Date
}

interface MemberSettings {
  site_id: string
  project_id: string
  moderation: Generated<boolean>
  ask_name: Generated<boolean>
  name_label: string | null
  consent_mode: Generated<ConsentMode>
  form_style: Generated<FormStyle>
  max_seats: number | null
  consent_version: Generated<number>
}

interface SiteDocuments {
  id: Generated<string>
  site_id: string
  project_id: string
  position: number
  title: string
  url: string
}

interface Members {
  id: Generated<string>
  site_id: string
  project_id: string
  email: string
  name: string | null
  status: MemberStatus
  lang: Generated<PageLanguage>
  host: Generated<string>
  consent_version: Generated<number>
  registered_at: Date
  last_login_at: Date | null
  paid_at: Date | null
  paid_minor: number | null
  paid_currency: string | null
  paid_provider: PaymentProviderName | null
  paid_until: Date | null
}

interface MemberConsents {
  member_id: string
  document_id: string
  at: Date
}

interface AccessPrices {
  site_id: string
  project_id: string
  amount_minor: number
  currency: string
  period_days: number | null
  provider: PaymentProviderName
}

interface Checkouts {
  id: Generated<string>
  site_id: string
  project_id: string
  member_id: string | null
  provider: CheckoutProviderName
  external_id: string | null
  payment_id: string | null
  amount_minor: number
  currency: string
  period_days: number | null
  status: Generated<CheckoutStatus>
  checkout_url: string | null
  origin: string
  return_path: string
  created_at: Date
  returned_at: Date | null
  paid_at: Date | null
  refunded_at: Date | null
  paid_until: Date | null
  next_look_at: Date | null
  seat_held_until: Date | null
}

interface TestPayments {
  id: string
  status: PaymentStatus['status']
  amount_minor: number
  currency: string
  description: string
  return_url: string
  metadata: unknown
  created_at: Date
}

interface MessengerChannels {
  id: Generated<string>
  project_id: string
  provider: MessengerName
  external_id: string
  title: string
  username: string | null
  url: string | null
  bot_is_admin: boolean
  connected_at: Date
}

interface AccessChannels {
  site_id: string
  channel_id: string
}

interface MessengerConnections {
  id: Generated<string>
  project_id: string
  provider: MessengerName
  nonce_sha256: string
  user_id: string | null
  created_at: Date
}

interface MessengerLogins {
  id: string
  site_id: string
  provider: MessengerName
  host: string
  nonce_sha256: string
  user_id: string | null
  code_sha256: string | null
  sends: Generated<number>
  tries: Generated<number>
  created_at: Date
}

interface Subscribers {
  id: Generated<string>
  site_id: string
  provider: MessengerName
  user_id: string
  created_at: Date
  last_login_at: Date
  member_at: Date
  member_until: Date | null
}

interface TrafficStreams {
  stream_id: string
  applied: number
  applied_at: Date
  dropped_hits: Generated<number>
}

interface TrafficDays {
  site_id: string
  /** The date in Moscow, YYYY-MM-DD. */
  day: string
  views: Generated<number>
  visitors: Generated<number>
  bytes: Generated<number>
  human_views: Generated<number>
  human_visitors: Generated<number>
  human_bytes: Generated<number>
  seen_keys: Generated<number>
  kept_values: number | null
}

interface ActivityDays {
  site_id: string
  day: string
  form_submissions: Generated<number>
  publishes: Generated<number>
}

interface TrafficTops {
  site_id: string
  day: string
  kind: TopKind
  value: string
  hits: number
  visitors: number
}

interface TrafficSeen {
  day: string
  key: Buffer
}

interface VisitorSalts {
  day: string
  sealed_salt: string
}

interface LiveVisitors {
  site_id: string
  visitor: Buffer
  seen_at: Date
}

interface LivePaths {
  site_id: string
  minute: Date
  path: string
  hits: number
}

/** An edge that runs. */
interface Edges {
  id: string
  seen_at: Date
}

/** The version of a site's route that an edge has applied. */
interface EdgeAcks {
  edge_id: string
  site_id: string
  version: number
  at: Date
}

/** The one row about the installation itself. */
interface Installation {
  id: Generated<string>
  /** Changes when a backup is restored. */
  incarnation: Generated<string>
}

export interface DB {
  projects: Projects
  keys: Keys
  sites: Sites
  site_variables: SiteVariables
  deploys: Deploys
  preview_links: PreviewLinks
  blobs: Blobs
  retained_assets: RetainedAssets
  released_objects: ReleasedObjects
  swept_objects: SweptObjects
  uploads: Uploads
  verified_prefixes: VerifiedPrefixes
  damaged_objects: DamagedObjects
  build_minutes: BuildMinutes
  workflow_starts: WorkflowStarts
  stuck_activities: StuckActivities
  build_totals: BuildTotals
  subdomains: Subdomains
  subdomain_changes: SubdomainChanges
  mails: Mails
  domains: Domains
  released_domains: ReleasedDomains
  allowances: Allowances
  certificates: Certificates
  dns_challenges: DnsChallenges
  git_connections: GitConnections
  git_deliveries: GitDeliveries
  git_previews: BranchPreviews
  git_reports: GitReports
  form_submissions: FormSubmissions
  site_forms: SiteForms
  form_usage: FormUsage
  form_rates: Rates
  autoreplies: Autoreplies
  autoreply_usage: AutoreplyUsage
  due_autoreplies: DueAutoreplies
  delivery_files: DeliveryFiles
  delivery_pages: DeliveryPages
  access_locks: AccessLocks
  access_brands: AccessBrands
  access_emails: AccessEmails
  access_generations: AccessGenerations
  access_codes: AccessCodes
  access_tickets: AccessTickets
  access_logins: AccessLogins
  access_networks: AccessNetworks
  access_rates: Rates
  access_prices: AccessPrices
  access_channels: AccessChannels
  member_settings: MemberSettings
  site_documents: SiteDocuments
  members: Members
  member_consents: MemberConsents
  messenger_channels: MessengerChannels
  messenger_connections: MessengerConnections
  messenger_logins: MessengerLogins
  subscribers: Subscribers
  checkouts: Checkouts
  test_payments: TestPayments
  notifications: Notifications
  webhooks: Webhooks
  webhook_events: WebhookEvents
  webhook_deliveries: WebhookDeliveries
  traffic_streams: TrafficStreams
  traffic_days: TrafficDays
  activity_days: ActivityDays
  traffic_tops: TrafficTops
  traffic_seen: TrafficSeen
  visitor_salts: VisitorSalts
  live_visitors: LiveVisitors
  live_paths: LivePaths
  edges: Edges
  edge_acks: EdgeAcks
  installation: Installation
}
