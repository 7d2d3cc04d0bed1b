import { z } from 'zod'
import { forges } from '../../core/git-events.ts'
import { maxWatchPaths } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import type { DeployRow } from '../../services/deploys/deploys.ts'
import type { GitConnectionRow } from '../../services/git/connections.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

const Delivery = z.object({
  at: time,
  forge: z.enum(forges),
  event: writtenBy('servers', z.string().describe('The name of the event at the forge.')),
  result: writtenBy('servers', z.string().describe('The result, such as `deploy <id>`, `skipped: branch` or `refused: …`.')),
})

const Webhook = z.object({
  url: z.url(),
  created_at: time.describe('When the secret was created.'),
  last_delivery: Delivery.nullable(),
})

const Connected = z.object({
  connected: z.literal(true),
  repo_url: z.string(),
  branch: z.string().describe('The branch whose deploys go live.'),
  has_token: z.boolean(),
  install_command: z.string().nullable(),
  build_command: z.string().nullable(),
  output_dir: z.string().nullable(),
  root_dir: z.string().nullable(),
  branch_previews: z.boolean(),
  pull_request_previews: z.boolean(),
  watch_paths: z.array(z.string()).max(maxWatchPaths),
  forge: z.enum(forges).nullable().describe('The forge that sends the webhooks; null before the first one.'),
  webhook: Webhook.nullable(),
  deploy_hook: z.object({ created_at: time, last_used_at: time.nullable() }).nullable(),
  last_commit: z.string().nullable().describe('The commit of the newest deploy of the branch, once it is known.'),
  last_deploy_id: z.uuid().nullable(),
  last_report: z
    .object({ at: time, error: writtenBy('servers', z.string().nullable()) })
    .nullable()
    .describe('The result of the latest status or comment for the forge.'),
})

/** The settings and state of a connection, without any secret. */
export const GitConnection = z.union([z.object({ connected: z.literal(false) }), Connected]).meta({ id: 'GitConnection' })

export const webhookUrl = (config: Config, siteId: string) => `${config.urls.base}/hooks/git/${siteId}`

/** @param newest the newest deploy of the connected branch */
export function connectionView(
  config: Config,
  row: GitConnectionRow,
  newest: Pick<DeployRow, 'id' | 'git'> | undefined,
): z.input<typeof Connected> {
  return {
    connected: true,
    repo_url: row.repo_url,
    branch: row.branch,
    has_token: row.token_sealed !== null,
    install_command: row.install_command,
    build_command: row.build_command,
    output_dir: row.output_dir,
    root_dir: row.root_dir,
    branch_previews: row.branch_previews,
    pull_request_previews: row.pull_request_previews,
    watch_paths: row.watch_paths,
    forge: row.forge,
    webhook: row.webhook_created_at && {
      url: webhookUrl(config, row.site_id),
      created_at: isoTime(row.webhook_created_at),
      last_delivery: row.last_delivery,
    },
    deploy_hook: row.deploy_hook_created_at && {
      created_at: isoTime(row.deploy_hook_created_at),
      last_used_at: isoTimeOrNull(row.deploy_hook_used_at),
    },
    last_commit: newest?.git?.commit ?? null,
    last_deploy_id: newest?.id ?? null,
    last_report: row.last_report,
  }
}
