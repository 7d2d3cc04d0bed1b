import { describe, expect, test } from 'vitest'
import type { GitEvent, Push } from '../../core/git-events.ts'
import { parseDelivery, payloadText } from '../../core/git-push.ts'
import { readWebhook, webhookNames } from '../infra/forges-fixtures.ts'

const head = '1f0c8ff3a4b2f1a6c4c9e5b7d0a1b2c3d4e5f601'

/** One line for what a test compares. */
function show(event: GitEvent): string {
  if (event.kind === 'ping') return 'ping'
  if (event.kind === 'ignored') return `ignored: ${event.reason}`
  const commit = event.commit?.replace(head, 'HEAD')
  if (event.kind === 'push') return [event.deleted ? 'deleted' : 'push', event.ref, commit, event.author].join(' ')
  const from = event.from_fork ? 'fork' : 'own'
  return [event.action, `#${event.number}`, event.ref, commit, from, event.base, event.title].join(' ')
}

function parse(name: string) {
  const { headers, raw } = readWebhook(name)
  return parseDelivery(headers, JSON.parse(payloadText(headers, raw) || '{}'))
}

const gitea = (name: string) => {
  const body = JSON.parse(readWebhook(name).raw)
  return body.after ?? body.pull_request.head.sha
}

const table: [string, string, string[]][] = [
  ['github-push', 'github push', ['push main HEAD Ada Lovelace']],
  ['github-push-form', 'github push', ['push main HEAD Ada Lovelace']],
  ['github-push-deleted', 'github push', ['deleted feature/x  ada']],
  ['github-push-tag', 'github push', ['ignored: it is not of a branch']],
  ['github-ping', 'github ping', ['ping']],
  [
    'github-pull-request-opened',
    'github pull_request',
    ['opened #2 changes HEAD own main Update the README with new information.'],
  ],
  [
    'github-pull-request-updated',
    'github pull_request',
    ['updated #2 changes HEAD own main Update the README with new information.'],
  ],
  [
    'github-pull-request-closed',
    'github pull_request',
    ['closed #2 changes HEAD own main Update the README with new information.'],
  ],
  ['github-pull-request-labeled', 'github pull_request', ['ignored: nothing follows from the event pull_request labeled']],
  ['github-pull-request-fork', 'github pull_request', ['opened #2 main HEAD fork main Update the README with new information.']],
  ['gitlab-push', 'gitlab Push Hook', ['push main HEAD Ada Lovelace']],
  ['gitlab-push-signed', 'gitlab Push Hook', ['push main HEAD Ada Lovelace']],
  ['gitlab-push-large', 'gitlab Push Hook', ['push main HEAD Ada Lovelace']],
  ['gitlab-push-deleted', 'gitlab Push Hook', ['deleted feature/x  John Smith']],
  ['gitlab-tag', 'gitlab Tag Push Hook', ['ignored: nothing follows from the event Tag Push Hook']],
  ['gitlab-merge-request-opened', 'gitlab Merge Request Hook', ['opened #3 ms-viewport HEAD own main MS-Viewport']],
  ['gitlab-merge-request-updated', 'gitlab Merge Request Hook', ['updated #3 ms-viewport HEAD own main MS-Viewport']],
  ['gitlab-merge-request-edited', 'gitlab Merge Request Hook', ['ignored: nothing follows from the event merge request update']],
  ['gitlab-merge-request-closed', 'gitlab Merge Request Hook', ['closed #3 ms-viewport HEAD own main MS-Viewport']],
  ['gitlab-merge-request-fork', 'gitlab Merge Request Hook', ['opened #3 ms-viewport HEAD fork main MS-Viewport']],
  ['gitea-push', 'gitea push', [`push main ${gitea('gitea-push')} Ada`]],
  ['forgejo-push', 'gitea push', [`push main ${gitea('gitea-push')} Ada`]],
  ['gitea-push-branch', 'gitea push', [`push feature/über ${gitea('gitea-push-branch')} Ada`]],
  ['gitea-push-branch-again', 'gitea push', [`push feature/über ${gitea('gitea-push-branch-again')} Ada`]],
  ['gitea-delete', 'gitea delete', ['deleted feature/über  ']],
  [
    'gitea-pull-request-opened',
    'gitea pull_request',
    [`opened #1 feature/über ${gitea('gitea-pull-request-opened')} own main New <b>title</b>`],
  ],
  [
    'gitea-pull-request-updated',
    'gitea pull_request',
    [`updated #1 feature/über ${gitea('gitea-pull-request-updated')} own main New <b>title</b>`],
  ],
  [
    'gitea-pull-request-closed',
    'gitea pull_request',
    [`closed #1 feature/über ${gitea('gitea-pull-request-closed')} own main New <b>title</b>`],
  ],
  ['bitbucket-push', 'bitbucket repo:push', ['push main HEAD Ada Lovelace']],
  [
    'bitbucket-push-two',
    'bitbucket repo:push',
    ['ignored: it is not of a branch', `push feature/x ${'3'.repeat(40)} Ada Lovelace`, 'push main HEAD Ada Lovelace'],
  ],
  ['bitbucket-push-deleted', 'bitbucket repo:push', ['deleted feature/x  ']],
  [
    'bitbucket-pull-request-opened',
    'bitbucket pullrequest:created',
    ['opened #7 branch2 d3022fc0ca3d own main Title of pull request'],
  ],
  [
    'bitbucket-pull-request-updated',
    'bitbucket pullrequest:updated',
    ['updated #7 branch2 d3022fc0ca3d own main Title of pull request'],
  ],
  [
    'bitbucket-pull-request-closed',
    'bitbucket pullrequest:fulfilled',
    ['closed #7 branch2 d3022fc0ca3d own main Title of pull request'],
  ],
  [
    'bitbucket-pull-request-declined',
    'bitbucket pullrequest:rejected',
    ['closed #7 branch2 d3022fc0ca3d own main Title of pull request'],
  ],
  [
    'bitbucket-pull-request-fork',
    'bitbucket pullrequest:created',
    ['opened #7 branch2 d3022fc0ca3d fork main Title of pull request'],
  ],
  ['bitbucket-dc-push', 'bitbucket_dc repo:refs_changed', ['push main HEAD Ada Lovelace']],
  ['bitbucket-dc-push-deleted', 'bitbucket_dc repo:refs_changed', ['deleted feature/x  Ada Lovelace']],
  ['bitbucket-dc-ping', 'bitbucket_dc diagnostics:ping', ['ping']],
  ['bitbucket-dc-pull-request-opened', 'bitbucket_dc pr:opened', ['opened #5 feature/wip HEAD own main Update README']],
  [
    'bitbucket-dc-pull-request-updated',
    'bitbucket_dc pr:from_ref_updated',
    ['updated #5 feature/wip HEAD own main Update README'],
  ],
  ['bitbucket-dc-pull-request-closed', 'bitbucket_dc pr:declined', ['closed #5 feature/wip HEAD own main Update README']],
  ['generic-push', 'generic push', ['push main HEAD ']],
  ['generic-empty', 'generic push', ['push   ']],
]

describe('G04: what a delivery says', () => {
  test.each(table)('%s', (name, sender, events) => {
    const delivery = parse(name)
    expect(`${delivery?.forge} ${delivery?.event}`).toBe(sender)
    expect(delivery?.events.map(show)).toEqual(events)
  })

  test('every fixture is in the table', () => {
    expect(table.map(([name]) => name).sort()).toEqual(webhookNames)
  })

  test.each([
    [
      'github-push',
      'https://github.com/ada/site.git',
      'Update the start page – neu\n\nWith a second line',
      ['docs/new.md', 'index.html', 'old.html'],
    ],
    ['gitlab-push', 'https://gitlab.example.com/team/web/site.git', 'fixed readme\n', ['CHANGELOG', 'docs/a.md', 'README.md']],
    ['gitlab-push-large', 'https://gitlab.example.com/team/web/site.git', 'fixed readme\n', undefined],
    ['gitea-push', 'https://gitea.example.com/ada/site.git', 'Add a page\n', ['docs/a.md', 'index.html']],
    ['gitea-push-branch', 'https://gitea.example.com/ada/site.git', 'Change it\n\n[skip ci]\n', undefined],
    ['bitbucket-push', 'https://bitbucket.org/team/site', 'new commit message\n', undefined],
    ['bitbucket-dc-push', 'https://bitbucket.example.com/scm/web/site.git', undefined, undefined],
    ['generic-push', undefined, undefined, undefined],
  ])('%s has its repository, message and files', (name, repo_url, message, files) => {
    const event = parse(name)?.events.at(-1) as Push
    expect([event.repo_url, event.message, event.changed_files?.toSorted()]).toEqual([repo_url, message, files?.toSorted()])
  })

  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  test.each([
    [{ 'content-type': 'application/json' }, '{"ref":"a+b"}', '{"ref":"a+b"}'],
    [{}, '', ''],
    [form, `payload=${encodeURIComponent('{"ref":"a+b ü&="}')}`, '{"ref":"a+b ü&="}'],
    [form, 'x=1&payload=%7B%22ref%22%3A+%22a%22%7D&y=2', '{"ref": "a"}'],
    [form, 'payload=%', undefined],
    [form, 'xpayload=1', ''],
    [form, '', ''],
  ])('with %j the payload in the body %s is %j', (headers, body, expected) => expect(payloadText(headers, body)).toBe(expected))

  test('a pull request whose repository is gone is one of a fork', () => {
    const { headers, raw } = readWebhook('github-pull-request-opened')
    const body = JSON.parse(raw)
    body.pull_request.head.repo = null
    expect(parseDelivery(headers, body)?.events).toMatchObject([{ action: 'opened', from_fork: true }])
  })

  test('of what no forge has sent nothing is known', () => {
    expect(parseDelivery({ 'content-type': 'application/json' }, {})).toBeUndefined()
  })

  const events: [string, string][] = [
    ['x-github-event', 'push'],
    ['x-github-event', 'pull_request'],
    ['x-gitea-event', 'delete'],
    ['x-gitlab-event', 'Push Hook'],
    ['x-gitlab-event', 'Merge Request Hook'],
    ['x-event-key', 'repo:push'],
    ['x-event-key', 'pullrequest:created'],
    ['x-event-key', 'repo:refs_changed'],
    ['x-event-key', 'pr:opened'],
    ['x-event-key', 'constructor'],
    ['x-svc-token', 'x'],
  ]
  const bodies = [
    null,
    [],
    'text',
    7,
    {},
    { ref: 7 },
    { action: '__proto__' },
    { push: { changes: [null, {}] } },
    { changes: [null] },
  ]
  test.each(events)('%s: %s says something of any body', (header, event) => {
    for (const body of bodies) expect(parseDelivery({ [header]: event }, body)?.events.length).toBeGreaterThan(0)
  })

  test.each([
    ['refs/heads/-o', head],
    ['refs/heads/a b', head],
    ['refs/heads/a..b', head],
    ['refs/heads/main', 'HEAD'],
    ['refs/heads/main', `${head}'; drop`],
    ['refs/pull/7/head', head],
  ])('the branch %s at %s is ignored', (ref, after) => {
    expect(parseDelivery({ 'x-svc-token': 'x' }, { ref, after })?.events[0]?.kind).toBe('ignored')
  })

  test('a text has no character that a database refuses', () => {
    const body = { ref: 'refs/heads/main', after: head, head_commit: { message: 'a\0b\ud800' } }
    const [event] = parseDelivery({ 'x-github-event': 'push' }, body)?.events ?? []
    expect((event as Push).message).toBe('ab\ufffd')
  })
})
