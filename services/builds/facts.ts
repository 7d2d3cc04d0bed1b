import { sql } from 'kysely'
import type { OwnSettings } from '../../core/build-settings.ts'
import type { SourceKind } from '../../core/deploy.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'

/** The facts of a build from its project, its site and, for a git deploy, its connection. */
export interface BuildFacts {
  readonly project_id: string
  readonly site_id: string
  readonly plan: PlanName
  readonly source_sha256: string
  /** The settings of the site. */
  readonly site: OwnSettings
  readonly source_kind: SourceKind
  /** Whether it goes live when it is ready. */
  readonly activate: boolean
  /** Whether the branch preview is of a fork; null when the deploy has no branch preview any more. */
  readonly from_fork: boolean | null
  /** Null when the source does not come from a repository that is still connected. */
  readonly git: OwnSettings | null
}

/** Undefined when the deploy has no source. */
export function findBuildFacts(db: Db, deployId: string): Promise<BuildFacts | undefined> {
  return db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .innerJoin('projects', 'projects.id', 'deploys.project_id')
    .leftJoin('git_connections as git', (join) =>
      join.onRef('git.site_id', '=', 'deploys.site_id').on('deploys.source_kind', '=', 'git'),
    )
    .leftJoin('git_previews as preview', 'preview.id', 'deploys.git_preview_id')
    .select(['deploys.project_id', 'deploys.site_id', 'projects.plan', 'deploys.source_sha256'])
    .select(['deploys.source_kind', 'deploys.activate', 'preview.from_fork'])
    .select(
      sql<OwnSettings>`jsonb_build_object(
        'install_command', sites.install_command, 'build_command', sites.build_command,
        'output_dir', sites.output_dir, 'root_dir', sites.root_dir, 'node_version', sites.node_version)`.as('site'),
    )
    .select(
      sql<BuildFacts['git']>`case when git.site_id is not null then jsonb_build_object(
        'install_command', git.install_command, 'build_command', git.build_command,
        'output_dir', git.output_dir, 'root_dir', git.root_dir) end`.as('git'),
    )
    .where('deploys.id', '=', deployId)
    .where('deploys.source_sha256', 'is not', null)
    .$narrowType<{ source_sha256: string }>()
    .executeTakeFirst()
}
