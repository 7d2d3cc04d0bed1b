/**
 * The search attributes of workflows in Temporal, with their types. They are registered at the start of the embedded server, or by the
 * operator of a cluster.
 */
export const searchAttributes = {
  ProjectId: 'Keyword',
  SiteId: 'Keyword',
  SiteName: 'Keyword',
  DeployId: 'Keyword',
  DeployStatus: 'Keyword',
  Domain: 'Keyword',
  Trigger: 'Keyword',
  /** The branch, or pull:<number>, of a git deploy. */
  GitRef: 'Keyword',
  /** When a long wait ends. */
  DueAt: 'Datetime',
} as const
export type SearchAttribute = keyof typeof searchAttributes
