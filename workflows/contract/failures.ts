/** The types of failures that are the platform's own and cannot heal: PostgreSQL refuses a statement, or a program is wrong. */
export const platformFailures = { database: 'database', bug: 'bug' } as const
