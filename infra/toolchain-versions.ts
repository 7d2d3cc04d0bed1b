import type { NodeMajor, PackageManager } from '../core/build-plan.ts'

/** A package of the registry: an exact release with the sha512 of its archive, so that builds do not depend on the day of an install. */
export interface Pinned {
  readonly name: string
  readonly integrity: string
  /** Below `lib/node_modules`. */
  readonly folder: string
  /** What stands in `bin`, with the file of the package that it is. */
  readonly programs: Readonly<Record<string, string>>
}

export const nodeVersions: Readonly<Record<NodeMajor, string>> = { 18: '18.20.8', 20: '20.20.2', 22: '22.23.3', 24: '24.21.0' }

const nodeIntegrities: Readonly<Record<NodeMajor, Readonly<Record<'x64' | 'arm64', string>>>> = {
  18: {
    x64: 'sha512-JWUTwZ9vMOjZXMtiBc74OZn12DXb4skKfY4Nlyc17Ss8BTaxjwkXAw6xZb0Ck5afUYU/neBbrHjo9O3baF34ww==',
    arm64: 'sha512-xTMJYtLdLjIimh8zRpgUDFsNknLP72AT/QWEQmeyDOM1/Gqj/GZn/MlbA+zWSjSMBxQscYvgFpq3qERMEcFEUA==',
  },
  20: {
    x64: 'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
    arm64: 'sha512-LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  },
  22: {
    x64: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
    arm64: 'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  },
  24: {
    x64: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    arm64: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
}

const npm = (version: string, integrity: string): Pinned => ({
  name: `npm@${version}`,
  integrity,
  folder: 'npm',
  programs: { npm: 'bin/npm-cli.js', npx: 'bin/npx-cli.js' },
})
const npm10 = npm('10.9.9', 'sha512-1g+6jLQvaIuB4zwvHL7yrXuXcWZwDsCtBX8bbWDqbvJSSr9nPiDDWTHNgwXR27iIcTTW7v3A57hDW9RYv2W4Yg==')
const npm11 = npm('11.19.1', 'sha512-ztsxKxt/kkIaAs+2i0GU6I+DRmUdrNasxTZKJe9TCdSjKxlhah/4r/hl5ygMD6XAg1qZ9c2TNomR4qgOydp10g==')

/** A release of Node, and the npm that belongs to it. */
export function pinnedNode(major: NodeMajor, arch: 'x64' | 'arm64'): { readonly release: Pinned; readonly npm: Pinned } {
  const name = `node-linux-${arch}@${nodeVersions[major]}`
  const release = { name, integrity: nodeIntegrities[major][arch], folder: 'node', programs: { node: 'bin/node' } }
  return { release, npm: major === 24 ? npm11 : npm10 }
}

const pnpm = (version: string, integrity: string): Pinned => ({
  name: `pnpm@${version}`,
  integrity,
  folder: 'pnpm',
  programs: { pnpm: 'bin/pnpm.cjs', pnpx: 'bin/pnpx.cjs' },
})
const yarn = (name: string, integrity: string): Pinned => ({
  name,
  integrity,
  folder: 'yarn',
  programs: { yarn: 'bin/yarn.js', yarnpkg: 'bin/yarn.js' },
})

export const pinnedManagers: Readonly<Record<Exclude<PackageManager, 'npm'>, Pinned>> = {
  'pnpm-8': pnpm('8.15.9', 'sha512-SZQ0ydj90aJ5Tr9FUrOyXApjOrzuW7Fee13pDzL0e1E6ypjNXP0AHDHw20VLw4BO3M1XhQHkyik6aBYWa72fgQ=='),
  'pnpm-10': pnpm('10.34.8', 'sha512-9ieo6XE0Ov5J39D2PQKCNCAd+oMdXLWIcz4eX42ya/FpiaMhYatcG02zsf28NzFgYGtbieAC323RmoWt+R/FqA=='),
  'yarn-1': yarn(
    'yarn@1.22.22',
    'sha512-prL3kGtyG7o9Z9Sv8IPfBNrWTDmXB4Qbes8A9rEzt6wkJV8mUvoirjU0Mp3GGAU06Y0XQyA3/2/RQFVuK7MTfg==',
  ),
  'yarn-3': yarn(
    '@yarnpkg/cli-dist@3.8.7',
    'sha512-YMoAlLR9f+kxXjK72ggBIidi3ulQQrQpMSxzrLUt0OUk9Xdst2v26LBSYFlzOm+7KRNWgYIJpFjA8uRnCgB5xQ==',
  ),
  'yarn-4.13': yarn(
    '@yarnpkg/cli-dist@4.13.0',
    'sha512-c0YdSja652OezJqFnz9+pZwKfKAiBu2aRPJiHPU73sirTGgvQRTyaS5Y6PQHAmmaoa3RjCY6f3L2q9g8S/urqw==',
  ),
  'yarn-4.14': yarn(
    '@yarnpkg/cli-dist@4.14.1',
    'sha512-62uYRCYBnAwNZ1Y4uMh0iUXtgZe4frwAgd5dJFoTu/uWMZWpJzxY2ib0cAva1eiy1L2jiDR0dS1Os+1osiIxvA==',
  ),
  'yarn-4.18': yarn(
    '@yarnpkg/cli-dist@4.18.1',
    'sha512-EH+A4TxAtBWXKE0DGQxW9Bo9crXHLJ73mfxjTQJuv8XonNWWTpei8BQ5JjczHJNU9GROTycwMFn8iOvRIZXUcA==',
  ),
}
