import type { Operation } from '../operation.ts'
import {
  get_site_access,
  open_site_access,
  reveal_site_password,
  set_site_access_expiry,
  set_site_access_opens,
  set_site_email_access,
  set_site_password,
} from './access.ts'
import { set_site_access_brand } from './access-brand.ts'
import { remove_access_bypass, rotate_access_bypass } from './access-bypass.ts'
import {
  add_site_access_email,
  add_site_access_emails,
  import_site_access_emails,
  list_site_access_emails,
  remove_site_access_email,
  remove_site_access_emails,
  set_site_access_email_label,
} from './access-emails.ts'
import { get_autoreply, set_autoreply } from './autoreply.ts'
import { approve_git_preview, delete_git_preview, list_git_previews } from './branch-previews.ts'
import { cancel_deploy, retry_deploy } from './cancel-retry.ts'
import { add_autoreply_file, remove_autoreply_file, set_autoreply_file_label } from './delivery-files.ts'
import {
  remove_autoreply_page_logo,
  set_autoreply_delivery,
  set_autoreply_design,
  set_autoreply_page_logo,
} from './delivery-page.ts'
import { activate_deploy, delete_deploy, deploy_files, deploy_site, get_deploy_status, list_deploys } from './deploys.ts'
import { delete_domain, list_domains, set_custom_domain, verify_domain } from './domains.ts'
import { explain_path } from './explain-path.ts'
import {
  delete_submission,
  export_submissions,
  get_form_submissions,
  get_forms_overview,
  set_form_settings,
  set_submission_status,
} from './forms.ts'
import {
  connect_git,
  deploy_git,
  disconnect_git,
  get_git,
  remove_deploy_hook,
  rotate_deploy_hook,
  rotate_git_webhook,
} from './git.ts'
import { get_logs } from './logs.ts'
import { check_deploy, deploy_manifest, get_manifest, list_deploy_files, put_blob } from './manifest-deploys.ts'
import {
  request_reconsent,
  set_members_access,
  set_members_settings,
  set_site_documents,
  set_site_members_access,
} from './member-settings.ts'
import { export_site_member, get_site_members, moderate_member, moderate_site_member } from './members.ts'
import {
  connect_messenger_channel,
  disconnect_messenger_channel,
  list_messenger_channels,
  set_site_subscribers_access,
} from './messengers.ts'
import { list_notifications, read_notifications } from './notifications.ts'
import { set_paid_access } from './paid-access.ts'
import { get_preview_url, revoke_preview_url } from './previews.ts'
import { whoami } from './session.ts'
import { create_site, get_site, list_sites, set_site_enabled, update_site } from './sites.ts'
import { get_site_stats, get_site_stats_live, get_site_stats_tops } from './stats.ts'
import { cancel_site_subdomain_change, change_site_subdomain } from './subdomain-changes.ts'
import { delete_site, list_trashed, restore_site } from './trash.ts'
import { delete_env, list_env, set_env } from './variables.ts'
import {
  create_webhook,
  delete_webhook,
  list_webhook_deliveries,
  list_webhooks,
  redeliver_webhook,
  update_webhook,
} from './webhooks.ts'

/** The chapters of the documentation, in order. */
export const tags = {
  Session: 'The project and the scopes of the key.',
  Sites: 'A site has an address and a history of deploys, one of which is live.',
  Deploys:
    'A deploy is one set of files. It is queued at once, processed in the background, and live as soon as its status is active.',
  Domains: 'A custom domain shows its site when its TXT record proves the ownership and its A record points here.',
  Git: 'A connected repository is fetched and published after each push to its branch; other branches and pull requests get previews.',
  Access:
    'A closed site shows visitors a login page: it opens with a password, or with a code that is emailed to a listed address or to a member.',
  Forms: 'Visitors post forms to the endpoint of a site. Their submissions are here, by status; those over the quota are hidden.',
  'Auto-reply': 'Visitors who post a form get an email in reply.',
  Stats: 'What visitors of a site requested, by day, counted where it is served: without cookies, scripts or stored addresses.',
  Notifications: 'What the owner of the project should know.',
  Webhooks: 'The platform calls the webhooks of a project when something happens to its sites.',
}

/** Every operation of a project key, in the order of the documentation. */
export const operations: readonly Operation[] = [
  whoami,
  list_sites,
  create_site,
  get_site,
  update_site,
  delete_site,
  list_trashed,
  restore_site,
  set_site_enabled,
  explain_path,
  change_site_subdomain,
  cancel_site_subdomain_change,
  list_env,
  set_env,
  delete_env,
  list_deploys,
  deploy_site,
  deploy_files,
  check_deploy,
  put_blob,
  deploy_manifest,
  get_manifest,
  get_deploy_status,
  list_deploy_files,
  get_logs,
  cancel_deploy,
  retry_deploy,
  activate_deploy,
  get_preview_url,
  revoke_preview_url,
  delete_deploy,
  list_domains,
  set_custom_domain,
  verify_domain,
  delete_domain,
  get_git,
  connect_git,
  disconnect_git,
  deploy_git,
  rotate_git_webhook,
  rotate_deploy_hook,
  remove_deploy_hook,
  list_git_previews,
  approve_git_preview,
  delete_git_preview,
  get_site_access,
  set_site_password,
  open_site_access,
  reveal_site_password,
  set_site_access_expiry,
  set_site_access_opens,
  set_site_email_access,
  set_paid_access,
  list_site_access_emails,
  add_site_access_email,
  import_site_access_emails,
  add_site_access_emails,
  set_site_access_email_label,
  remove_site_access_email,
  remove_site_access_emails,
  set_site_access_brand,
  list_messenger_channels,
  connect_messenger_channel,
  disconnect_messenger_channel,
  set_site_subscribers_access,
  set_members_access,
  set_site_members_access,
  get_site_members,
  moderate_member,
  moderate_site_member,
  export_site_member,
  set_members_settings,
  request_reconsent,
  set_site_documents,
  rotate_access_bypass,
  remove_access_bypass,
  get_forms_overview,
  get_form_submissions,
  export_submissions,
  set_submission_status,
  delete_submission,
  set_form_settings,
  get_autoreply,
  set_autoreply,
  add_autoreply_file,
  remove_autoreply_file,
  set_autoreply_file_label,
  set_autoreply_design,
  set_autoreply_page_logo,
  remove_autoreply_page_logo,
  set_autoreply_delivery,
  get_site_stats,
  get_site_stats_tops,
  get_site_stats_live,
  list_notifications,
  read_notifications,
  list_webhooks,
  create_webhook,
  update_webhook,
  delete_webhook,
  list_webhook_deliveries,
  redeliver_webhook,
]
