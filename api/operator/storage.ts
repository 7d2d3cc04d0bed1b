import { z } from 'zod'
import { listDamage, maxDamagedObjects, maxDamagedUses } from '../../services/storage/damage.ts'
import { readStorageHealth } from '../../services/storage/health.ts'
import { operation } from '../operation.ts'
import { isoTime, isoTimeOrNull, sha256, time } from '../views/fields.ts'

const DamagedObject = z
  .object({
    sha256,
    found_at: time,
    repaired_at: time
      .nullable()
      .describe('Null while the object cannot be read. Sending the same file again, in any deploy, repairs it.'),
    uses: z
      .array(
        z.object({
          project_id: z.uuid(),
          site_id: z.uuid(),
          deploy_id: z.uuid().nullable().describe('Null for files for visitors and the images of pages.'),
          path: z.string().nullable().describe('Null for the manifest of the deploy, and for the source of its build.'),
          live: z.boolean().describe('Whether this deploy is live; true without a deploy.'),
        }),
      )
      .max(maxDamagedUses)
      .describe('At most 100, those of live deploys first.'),
  })
  .meta({ id: 'DamagedObject' })

const Storage = z
  .object({
    objects: z.int().describe('The number of objects at the latest verification.'),
    bytes: z.int().describe('The total size of the objects, without compressed variants.'),
    verified_share: z.number().describe('The share of the storage that was verified at least once, 0 to 1.'),
    oldest_verification: time.nullable(),
    latest_verification: time.nullable(),
    damaged_objects: z.int().describe('The number of objects that cannot be read.'),
    damaged: z
      .array(DamagedObject)
      .max(maxDamagedObjects)
      .describe('Damaged objects, then repaired ones of the last 30 days; at most 100.'),
  })
  .meta({ id: 'Storage' })

export const storageOperations = [
  operation({
    id: 'get_storage',
    title: 'Get the state of the storage',
    summary:
      'Gets the progress of the verification of the storage, the damaged objects, and the deploys and sites that need them.',
    tag: 'Operator',
    rest: 'GET /operator/v1/storage',
    scope: 'full',
    input: z.object({}),
    output: Storage,
    handler: async (ctx) => {
      const damage = await listDamage(ctx, ctx.clock())
      const { objects, bytes, verified_prefixes, oldest, latest, damaged } = await readStorageHealth(ctx.db)
      return {
        objects,
        bytes,
        verified_share: verified_prefixes / 256,
        oldest_verification: isoTimeOrNull(oldest),
        latest_verification: isoTimeOrNull(latest),
        damaged_objects: damaged,
        damaged: damage.map(({ found_at, repaired_at, uses, sha256 }) => ({
          sha256,
          found_at: isoTime(found_at),
          repaired_at: isoTimeOrNull(repaired_at),
          uses: [...uses],
        })),
      }
    },
  }),
]
