import { expect, test } from 'vitest'
import { credentialsOf, isBranchName, judgeRepoUrl, refOf } from '../../core/git-remotes.ts'

const strict = { allowPrivate: false }

test.each([
  ['https://github.com/acme/site.git', 'https://github.com/acme/site.git'],
  ['https://GitHub.com/acme/site/', 'https://github.com/acme/site'],
  ['https://gitlab.example.com:443/group/sub/site.git', 'https://gitlab.example.com/group/sub/site.git'],
  ['https://bücher.example/a/b', 'https://xn--bcher-kva.example/a/b'],
  ['https://1.1.1.1/a.git', 'https://1.1.1.1/a.git'],
])('G01: %s is the address of a repository', (text, url) => expect(judgeRepoUrl(text, strict)).toEqual({ kind: 'ok', url }))

test.each([
  ['http://github.com/acme/site.git', 'must start with https://'],
  ['git://github.com/acme/site.git', 'must start with https://'],
  ['file:///etc/passwd', 'must start with https://'],
  ['ext::sh -c id', 'white space'],
  ['ext::sh', 'is not an address'],
  ['git@github.com:acme/site.git', 'is an ssh address'],
  ['ssh://git@github.com/acme/site.git', 'is an ssh address'],
  ['https://user:secret@github.com/acme/site.git', 'give the token in `token`'],
  ['https://github.com:8443/acme/site.git', 'names a port'],
  ['https://github.com:22/acme/site.git', 'names a port'],
  ['https://github.com./acme/site.git', 'leave out a dot'],
  ['https://-oProxyCommand=id/acme/site.git', 'no host name'],
  ['https://-o/acme/site.git', 'no host name'],
  ['https://github.com/acme/site.git?x=1', 'query'],
  ['https://github.com/acme/site.git#main', 'query'],
  ['https://github.com/', 'names no repository'],
  ['https://github.com', 'names no repository'],
  ['https://github.com\\@127.0.0.1/a', 'backslash'],
  ['https://github.com/acme/si te', 'white space'],
  ['https://github.com/acme/\nsite', 'white space'],
  ['https:github.com/acme/site', 'is not an address'],
  ['acme/site', 'is not an address'],
  [`https://github.com/${'a'.repeat(2048)}`, 'longer than'],
])('G01: %s is refused, with the reason', (text, reason) =>
  expect(judgeRepoUrl(text, strict)).toEqual({ kind: 'bad', reason: expect.stringContaining(reason) }),
)

test('a forge in the own network may use any port and plain http where that is allowed, and no other scheme', () => {
  const rules = { allowPrivate: true }
  expect(judgeRepoUrl('http://gitea:3000/a/b.git', rules)).toEqual({ kind: 'ok', url: 'http://gitea:3000/a/b.git' })
  expect(judgeRepoUrl('https://[::1]:3000/a/b.git', rules)).toEqual({ kind: 'ok', url: 'https://[::1]:3000/a/b.git' })
  expect(judgeRepoUrl('git://gitea/a/b.git', rules).kind).toBe('bad')
})

test.each(['main', 'feature/x', 'v1.0', 'ünï', 'a@b', 'refs/pull/3/head', '@x'])('%s is a branch name', (name) =>
  expect(isBranchName(name)).toBe(true),
)

test.each([
  '',
  '@',
  'a b',
  'a..b',
  'a~1',
  'a^',
  'a:b',
  'a?',
  'a*',
  'a[',
  'a\\b',
  '/a',
  'a/',
  'a//b',
  '.a',
  'a/.b',
  'a.lock',
  'a.lock/b',
  'a.',
])('%s is no branch name', (name) => expect(isBranchName(name)).toBe(false))

test.each(['main\r', 'main\n', 'a\0b', '\x7f', '--upload-pack=id', '-o', 'a@{1}', 'a'.repeat(256), '\ud800'])(
  '%j is no branch name',
  (name) => expect(isBranchName(name)).toBe(false),
)

test('a name is a commit, a full ref or a branch', () => {
  const commit = 'a'.repeat(40)
  expect([commit, 'refs/pull/3/head', 'main', 'a b'].map(refOf)).toEqual([
    { commit },
    { ref: 'refs/pull/3/head' },
    { ref: 'refs/heads/main' },
    undefined,
  ])
})

test.each([
  ['github.com', 'ghp_x', 'x-access-token:ghp_x'],
  ['bitbucket.org', 'ATCTT3x', 'x-token-auth:ATCTT3x'],
  ['bitbucket.org', 'ATATT3x', 'x-bitbucket-api-token-auth:ATATT3x'],
  ['gitlab.com', 'glpat-x', 'oauth2:glpat-x'],
  ['gitea.example.com', 'abc', 'oauth2:abc'],
  ['gitlab.com', 'gitlab+deploy-token-1:gldt-x', 'gitlab+deploy-token-1:gldt-x'],
  ['git.example.com', 'ada:a:b', 'ada:a:b'],
])('G05: %s takes the token %s as %s', (host, token, expected) => {
  const { username, password } = credentialsOf(host, token)
  expect(`${username}:${password}`).toBe(expected)
})
