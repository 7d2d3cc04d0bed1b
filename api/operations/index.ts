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
