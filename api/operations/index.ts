import type { Operation } from '../operation.ts'
import { activate_deploy, delete_deploy, deploy_files, deploy_site, get_deploy_status, list_deploys } from './deploys.ts'
import { get_logs } from './logs.ts'
import { check_deploy, deploy_manifest, get_manifest, put_blob } from './manifest-deploys.ts'
import { get_preview_url, revoke_preview_url } from './previews.ts'
import { whoami } from './session.ts'
import { create_site, get_site, list_sites, set_site_enabled, update_site } from './sites.ts'

/** The chapters of the documentation, in their order. */
export const tags = {
  Session: 'Who calls, and what the key may do.',
  Sites: 'A site is an address with a history of deploys; one of them is live.',
  Deploys: 'A deploy is one set of files. It is queued at once, processed in the background, and live when its status is active.',
}

/** Every operation of a project key, in the order of the documentation. */
export const operations: readonly Operation[] = [
  whoami,
  list_sites,
  create_site,
  get_site,
  update_site,
  set_site_enabled,
  list_deploys,
  deploy_site,
  deploy_files,
  check_deploy,
  put_blob,
  deploy_manifest,
  get_manifest,
  get_deploy_status,
  get_logs,
  activate_deploy,
  get_preview_url,
  revoke_preview_url,
  delete_deploy,
]
