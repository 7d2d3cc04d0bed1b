import { link, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listTree } from '../../../runner/install/tree-listing.ts'

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plinth-tree-'))
})
afterEach(() => rm(folder, { recursive: true }))

const user = { uid: undefined }

test('a tree is listed with its kinds, links and second names, whatever the names are', async () => {
  await mkdir(join(folder, 'a\nb'))
  await writeFile(join(folder, 'a\nb', 'c d'), 'x')
  await link(join(folder, 'a\nb', 'c d'), join(folder, 'second'))
  await symlink('../nowhere', join(folder, 'link'))
  const tree = await listTree(folder, user)
  const shown = [...(tree ?? [])].map(([path, { type, target, names }]) => [path, type, target, names]).sort()
  expect(shown).toEqual([
    ['.', 'd', '', 3],
    ['a\nb', 'd', '', 2],
    ['a\nb/c d', 'f', '', 2],
    ['link', 'l', '../nowhere', 1],
    ['second', 'f', '', 2],
  ])
})

test('a folder that is not there cannot be listed', async () => {
  expect(await listTree(join(folder, 'none'), user)).toBeUndefined()
  expect(await listTree(folder, user, ['none'])).toBeUndefined()
})

test('1: a large tree is listed in pieces, between which others run', async () => {
  const files = 20_000
  for (let i = 0; i < files; i += 500) {
    await mkdir(join(folder, String(i)))
    const names = Array.from({ length: 500 }, (_, j) => join(folder, String(i), `${'x'.repeat(100)}${j}`))
    await Promise.all(names.map((name) => writeFile(name, '')))
  }
  const cpuMs = () => process.threadCpuUsage().user / 1000
  const began = cpuMs()
  let last = began
  let longest = 0
  const turn = () => {
    longest = Math.max(longest, cpuMs() - last)
    last = cpuMs()
  }
  const turning = setInterval(turn, 1)
  const tree = await listTree(folder, user)
  const whole = cpuMs() - began
  turn()
  clearInterval(turning)
  expect(tree?.size).toBe(1 + files / 500 + files)
  expect(longest).toBeLessThan(whole / 4)
})
