import { createHash } from 'node:crypto'
import type { Operation } from '../../api/operation.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite, openPreview, page, randomName } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { makeFormSite } from './form-site.ts'

export type Input = Record<string, unknown>

export const archive = tarGz([{ name: 'index.html', data: 'x' }])
const archiveHash = createHash('sha256').update(archive).digest('hex')

/** An image of one pixel. */
export const smallImage = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

/** Raw bytes by the name of the field. */
const rawBytes: Readonly<Record<string, Buffer>> = { content: Buffer.from('A guide'), logo: smallImage }

/** Raw bytes that an operation takes. */
export const rawBytesOf = ({ raw }: Operation): Buffer => rawBytes[raw?.name ?? ''] ?? archive

/** For each operation an input with which a full key of the project succeeds, about something made for it. */
export function operationInputs(w: World, owner: TestProject): Readonly<Record<string, () => Promise<Input>>> {
  const ofSite = async (): Promise<Input> => ({ site_id: (await makeSite(w, owner)).id })
  const deployed = async (activate = true): Promise<Input> => {
    const site = await makeSite(w, owner)
    return { deploy_id: (await deployFiles(w, owner, site.id, [page('x')], activate)).id }
  }

  /** A site that is closed with a password. */
  async function ofClosedSite(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    await w.call(`PUT /api/v1/sites/${id}/access`, { key: owner.key, json: { password: 'kite-and-river' } })
    return { site_id: id }
  }

  /** An address that is listed at a site. */
  async function ofAddress(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const json = { email: 'ada@example.com', label: 'Ada' }
    const { body } = await w.call(`POST /api/v1/sites/${id}/access/emails`, { key: owner.key, json })
    return { site_id: id, email_id: body.id }
  }

  /** A member who waits for approval. */
  async function ofMember(): Promise<Input> {
    const { id: site_id } = await makeSite(w, owner)
    await w.call(`POST /api/v1/sites/${site_id}/access/members-mode`, { key: owner.key })
    const member = { email: 'ada@example.com', name: 'Ada', status: 'pending', host: 'notes.example.com' } as const
    const { id } = await w.db
      .insertInto('members')
      .values({ ...member, site_id, project_id: owner.id, registered_at: new Date() })
      .returning('id')
      .executeTakeFirstOrThrow()
    return { site_id, member_id: id }
  }

  /** An archive that waits for a runner, which is not there. */
  async function ofWaitingDeploy(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const sent = { key: owner.key, bytes: archive, type: 'application/gzip' }
    return { deploy_id: (await w.call(`POST /api/v1/sites/${id}/deploys`, sent)).body.id }
  }

  async function ofVariable(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    await w.call(`PUT /api/v1/sites/${id}/env/API_URL`, { key: owner.key, json: { value: 'https://api.example.com' } })
    return { site_id: id, name: 'API_URL' }
  }

  async function ofDomain(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const json = { domain: `${randomName()}.example.com` }
    const { body } = await w.call(`POST /api/v1/sites/${id}/domains`, { key: owner.key, json })
    return { domain_id: body.id }
  }

  async function ofRepository(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const json = { repo_url: 'https://forge.example.com/ada/notes.git' }
    await w.call(`PUT /api/v1/sites/${id}/git`, { key: owner.key, json })
    return { site_id: id }
  }

  async function ofSubmission(): Promise<Input> {
    const site = await makeFormSite(w, owner)
    await site.post({ name: 'Ada', email: 'ada@example.com', message: 'May I quote your notes?' })
    const row = await w.db.selectFrom('form_submissions').select('id').where('site_id', '=', site.id).executeTakeFirstOrThrow()
    return { submission_id: row.id }
  }

  async function ofDeliveryFile(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const sent = { key: owner.key, bytes: Buffer.from('A guide'), type: 'text/plain' }
    const { body } = await w.call(`POST /api/v1/sites/${id}/autoreply/files?name=guide.txt`, sent)
    return { site_id: id, file_id: body.files[0].id }
  }

  async function ofDeliveryPage(): Promise<Input> {
    const { id } = await makeSite(w, owner)
    const json = { page_title: 'Your guide', upsell_text: 'Thank you for writing.' }
    await w.call(`PUT /api/v1/sites/${id}/autoreply/delivery`, { key: owner.key, json })
    return { site_id: id }
  }

  /** A site with a day that has visitors. */
  async function ofVisitedSite(): Promise<Input> {
    const { id: site_id } = await makeSite(w, owner)
    const ofDay = { site_id, day: '2026-09-02' }
    const traffic = { views: 48, visitors: 21, bytes: 1_843_200, human_views: 36, human_visitors: 17, human_bytes: 1_530_000 }
    await w.db
      .insertInto('traffic_days')
      .values({ ...ofDay, ...traffic })
      .execute()
    await w.db
      .insertInto('activity_days')
      .values({ ...ofDay, form_submissions: 2, publishes: 1 })
      .execute()
    const tops = [
      { kind: 'page', value: '/', hits: 31, visitors: 20 },
      { kind: 'page', value: '/notes/', hits: 17, visitors: 9 },
      { kind: 'source', value: 'search.example', hits: 12, visitors: 11 },
      { kind: 'download', value: '/field-guide.pdf', hits: 6, visitors: 5 },
      { kind: 'not_found', value: '/old-page', hits: 7, visitors: 3 },
      { kind: 'device', value: 'desktop', hits: 29, visitors: 12 },
      { kind: 'bot_reason', value: 'ua_bot', hits: 12, visitors: 4 },
    ] as const
    await w.db
      .insertInto('traffic_tops')
      .values(tops.map((top) => ({ ...ofDay, ...top })))
      .execute()
    const [now, ...seconds] = [Date.now(), 10, 40, 70]
    const visits = seconds.map((ago, n) => ({ site_id, visitor: Buffer.alloc(12, n), seen_at: new Date(now - ago * 1000) }))
    await w.db.insertInto('live_visitors').values(visits).execute()
    const path = { site_id, minute: new Date(now), path: '/notes/', hits: 8 }
    await w.db.insertInto('live_paths').values(path).execute()
    return { site_id }
  }

  /** The pull request of a fork that waits for its approval. */
  async function ofBranchPreview(): Promise<Input> {
    const { site_id } = (await ofRepository()) as { site_id: string }
    const preview = await openPreview(w, owner, site_id, { ref: 'pull:7', fetch_ref: 'refs/pull/7/head', from_fork: true })
    return { site_id, preview_id: preview.id }
  }

  /** A channel that lets nobody into a site yet. */
  async function ofChannel(): Promise<Input> {
    // a project may have few
    await w.db.deleteFrom('messenger_channels').where('project_id', '=', owner.id).execute()
    const named = {
      external_id: '-1001234567890',
      title: 'Field notes',
      username: 'field_notes',
      url: 'https://t.me/field_notes',
    }
    const { id } = await w.db
      .insertInto('messenger_channels')
      .values({ project_id: owner.id, provider: 'telegram', ...named, bot_is_admin: true, connected_at: new Date() })
      .returning('id')
      .executeTakeFirstOrThrow()
    return { channel_id: id }
  }

  async function ofWebhook(): Promise<Input> {
    // a project may have few
    await w.db.deleteFrom('webhooks').where('project_id', '=', owner.id).execute()
    const json = { url: 'https://hooks.example.com/plinth', events: ['form.received'] }
    const { body } = await w.call('POST /api/v1/webhooks', { key: owner.key, json })
    return { webhook_id: body.id }
  }

  /** A delivery that was made already: whatever waits for a receiver would change while a test looks. */
  async function ofDelivery(): Promise<Input> {
    const { webhook_id } = (await ofWebhook()) as { webhook_id: string }
    const now = new Date()
    const received = { project_id: owner.id, type: 'form.received', data: jsonb({}), created_at: now } as const
    const event = await w.db.insertInto('webhook_events').values(received).returning('id').executeTakeFirstOrThrow()
    const entry = { at: now.toISOString(), status: 204, duration_ms: 120, error: null }
    const delivery = {
      webhook_id,
      event_id: event.id,
      project_id: owner.id,
      tries: jsonb([entry]),
      outcome: 'delivered',
      created_at: now,
      ended_at: now,
    } as const
    const { id } = await w.db.insertInto('webhook_deliveries').values(delivery).returning('id').executeTakeFirstOrThrow()
    return { webhook_id, delivery_id: id }
  }

  return {
    whoami: async () => ({}),
    list_sites: async () => ({}),
    create_site: async () => ({ name: 'x', subdomain: randomName() }),
    get_site: ofSite,
    update_site: async () => ({ ...(await ofSite()), name: 'renamed' }),
    delete_site: async () => ({ ...(await ofSite()), confirm: true }),
    list_trashed: async () => ({}),
    restore_site: async () => {
      const { id } = await makeSite(w, owner)
      await w.call(`DELETE /api/v1/sites/${id}`, { key: owner.key })
      return { site_id: id }
    },
    set_site_enabled: async () => ({ ...(await ofSite()), enabled: false }),
    explain_path: async () => {
      const site = await makeSite(w, owner)
      await deployFiles(w, owner, site.id, [page('x')])
      return { site_id: site.id, path: '/old/page?id=7' }
    },
    change_site_subdomain: async () => ({ ...(await ofSite()), subdomain: randomName(), confirm: true }),
    cancel_site_subdomain_change: async () => {
      const { id } = await makeSite(w, owner)
      await w.call(`POST /api/v1/sites/${id}/subdomain-change`, { key: owner.key, json: { subdomain: randomName() } })
      return { site_id: id }
    },
    list_env: ofSite,
    set_env: async () => ({ ...(await ofSite()), name: 'API_URL', value: 'https://api.example.com' }),
    delete_env: ofVariable,
    list_deploys: ofSite,
    deploy_site: ofSite,
    deploy_files: async () => ({ ...(await ofSite()), files: [page('x')] }),
    check_deploy: async () => ({ ...(await ofSite()), files: [{ path: 'index.html', sha256: archiveHash }] }),
    put_blob: async () => ({ sha256: archiveHash }),
    deploy_manifest: async () => {
      await w.call(`PUT /api/v1/blobs/${archiveHash}`, { key: owner.key, bytes: archive, type: 'application/octet-stream' })
      return { ...(await ofSite()), files: [{ path: 'index.html', sha256: archiveHash }] }
    },
    get_manifest: ofSite,
    get_deploy_status: () => deployed(),
    list_deploy_files: () => deployed(),
    get_logs: () => deployed(),
    cancel_deploy: ofWaitingDeploy,
    retry_deploy: () => deployed(),
    activate_deploy: () => deployed(false),
    get_preview_url: () => deployed(false),
    revoke_preview_url: () => deployed(false),
    delete_deploy: () => deployed(false),
    list_domains: ofSite,
    set_custom_domain: async () => ({ ...(await ofSite()), domain: `${randomName()}.example.com` }),
    verify_domain: ofDomain,
    delete_domain: async () => ({ ...(await ofDomain()), confirm: true }),
    get_git: ofRepository,
    connect_git: async () => ({ ...(await ofSite()), repo_url: 'https://forge.example.com/ada/notes.git' }),
    disconnect_git: async () => ({ ...(await ofRepository()), confirm: true }),
    deploy_git: ofRepository,
    rotate_git_webhook: ofRepository,
    rotate_deploy_hook: ofRepository,
    remove_deploy_hook: async () => ({ ...(await ofRepository()), confirm: true }),
    list_git_previews: ofBranchPreview,
    approve_git_preview: ofBranchPreview,
    delete_git_preview: ofBranchPreview,
    get_site_access: ofClosedSite,
    set_site_password: async () => ({ ...(await ofSite()), password: 'kite-and-river' }),
    open_site_access: ofClosedSite,
    reveal_site_password: ofClosedSite,
    set_site_access_expiry: async () => ({ ...(await ofClosedSite()), days: 30 }),
    set_site_access_opens: async () => ({ ...(await ofClosedSite()), max_opens: 100 }),
    set_site_email_access: ofSite,
    set_paid_access: async () => ({
      ...(await ofSite()),
      amount_minor: 49_900,
      currency: 'RUB',
      period_days: 30,
      provider: 'manual',
    }),
    list_site_access_emails: async () => ({ site_id: (await ofAddress())['site_id'] }),
    add_site_access_email: async () => ({ ...(await ofSite()), email: 'ada@example.com', label: 'Ada' }),
    import_site_access_emails: async () => ({ ...(await ofSite()), raw: 'ada@example.com, grace@example.com' }),
    add_site_access_emails: async () => ({ ...(await ofSite()), emails: ['ada@example.com'] }),
    set_site_access_email_label: async () => ({ ...(await ofAddress()), label: 'Ada, of the board' }),
    remove_site_access_email: ofAddress,
    remove_site_access_emails: async () => ({
      site_id: (await ofAddress())['site_id'],
      emails: ['ada@example.com'],
      confirm: true,
    }),
    set_site_access_brand: async () => ({ ...(await ofClosedSite()), logo_base64: smallImage.toString('base64') }),
    list_messenger_channels: async () => ({}),
    connect_messenger_channel: async () => ({ provider: 'telegram' }),
    disconnect_messenger_channel: ofChannel,
    set_site_subscribers_access: async () => ({ ...(await ofSite()), channel_ids: [(await ofChannel()).channel_id] }),
    set_members_access: ofSite,
    set_site_members_access: async () => ({ ...(await ofSite()), moderation: false }),
    get_site_members: async () => ({ site_id: (await ofMember())['site_id'] }),
    moderate_member: async () => ({ ...(await ofMember()), action: 'approve' }),
    moderate_site_member: async () => ({ ...(await ofMember()), action: 'delete', confirm: true }),
    export_site_member: ofMember,
    set_members_settings: async () => ({ ...(await ofSite()), ask_name: true, consent_mode: 'checkbox' }),
    request_reconsent: async () => ({ site_id: (await ofMember())['site_id'] }),
    set_site_documents: async () => ({
      ...(await ofSite()),
      documents: [{ title: 'Terms of use', url: 'https://example.com/terms' }],
    }),
    rotate_access_bypass: ofClosedSite,
    remove_access_bypass: ofClosedSite,
    get_forms_overview: async () => ({}),
    get_form_submissions: async () => ({}),
    export_submissions: async () => ({}),
    set_submission_status: async () => ({ ...(await ofSubmission()), status: 'archive' }),
    delete_submission: ofSubmission,
    set_form_settings: async () => ({ ...(await ofSite()), notify_email: true }),
    get_autoreply: ofSite,
    set_autoreply: async () => ({
      ...(await ofSite()),
      enabled: true,
      subject: 'Thank you, {{name}}',
      body: 'We have **your message** and answer within two days.',
    }),
    add_autoreply_file: async () => ({ ...(await ofSite()), file_name: 'guide.txt', label: 'The guide' }),
    remove_autoreply_file: ofDeliveryFile,
    set_autoreply_file_label: async () => ({ ...(await ofDeliveryFile()), label: 'The guide' }),
    set_autoreply_design: async () => ({ ...(await ofSite()), link_ttl_days: 14 }),
    set_autoreply_page_logo: ofDeliveryPage,
    remove_autoreply_page_logo: ofDeliveryPage,
    set_autoreply_delivery: async () => ({ ...(await ofDeliveryPage()), logo_base64: smallImage.toString('base64') }),
    get_site_stats: async () => ({ ...(await ofVisitedSite()), from: '2026-09-01', to: '2026-09-02' }),
    get_site_stats_tops: async () => ({ ...(await ofVisitedSite()), from: '2026-09-01', to: '2026-09-02' }),
    get_site_stats_live: ofVisitedSite,
    list_notifications: async () => ({}),
    read_notifications: async () => ({ all: true }),
    list_webhooks: async () => ({}),
    create_webhook: async () => ({ url: 'https://hooks.example.com/plinth', events: ['form.received'] }),
    update_webhook: async () => ({ ...(await ofWebhook()), enabled: false }),
    delete_webhook: async () => ({ ...(await ofWebhook()), confirm: true }),
    list_webhook_deliveries: ofDelivery,
    redeliver_webhook: ofDelivery,
  }
}
