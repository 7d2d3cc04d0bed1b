import { expect, test } from 'vitest'
import { type BuildWait, waitingFor } from '../../core/deploy-waits.ts'

const next: BuildWait = {
  is_claimed: true,
  has_permit: false,
  is_fetch: false,
  fetch_after: null,
  earlier: 0,
  first_earlier_seq: null,
}
const away = new Date('2026-05-01T10:00:00.000Z')

test.each<[string, BuildWait | undefined, string]>([
  ['stored files', undefined, 'a free worker'],
  ['a build that no worker has taken', { ...next, is_claimed: false }, 'a free worker'],
  ['the same behind another', { ...next, is_claimed: false, earlier: 1, first_earlier_seq: 2 }, 'deploy 2 of this site'],
  ['a build with a permit', { ...next, has_permit: true }, 'a build slot'],
  ['a build without one', next, 'another build of the project'],
  ['a build behind another', { ...next, earlier: 1, first_earlier_seq: 3 }, 'deploy 3 of this site'],
  ['a build behind three', { ...next, earlier: 3, first_earlier_seq: 3 }, 'deploy 3 and 2 more of this site'],
  ['a fetch that runs', { ...next, is_fetch: true, has_permit: true }, 'its repository, which is being fetched'],
  ['a fetch without a permit', { ...next, is_fetch: true }, 'another fetch of the project'],
  [
    'a fetch that is retried',
    { ...next, is_fetch: true, fetch_after: away },
    'its repository, which was away; the next try is at 2026-05-01T10:00:00.000Z',
  ],
  [
    'the same behind another',
    { ...next, is_fetch: true, fetch_after: away, earlier: 1, first_earlier_seq: 1 },
    'deploy 1 of this site',
  ],
])('E31: %s waits for what its text names', (_what, wait, expected) => expect(waitingFor(wait)).toBe(expected))
