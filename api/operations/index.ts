import type { Operation } from '../operation.ts'
import {
  activate_deploy,
  delete_deploy,
  deploy_files,
  deploy_site,
  get_deploy_status,
  get_manifest,
  list_deploys,
} from './deploys.ts'
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
  get_manifest,
  get_deploy_status,
  activate_deploy,
  delete_deploy,
]
