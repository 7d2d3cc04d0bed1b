import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { extract } from 'tar'
import { type Download, download } from '../toolchain/download.ts'

export interface Release {
  /** By `<process.platform>-<process.arch>`. */
  readonly archives: Readonly<Record<string, Download>>
}

/** Archives of official releases. The hashes are pinned here, so the download needs no trust in the server. */
export const releases = {
  temporal: {
    archives: {
      'linux-x64': {
        url: 'https://github.com/temporalio/cli/releases/download/v1.5.1/temporal_cli_1.5.1_linux_amd64.tar.gz',
        sha256: 'ddc95e08b0b076efd4ea9733a3f488eb7d2be875f8834e616cd2a37358b4852d',
      },
      'linux-arm64': {
        url: 'https://github.com/temporalio/cli/releases/download/v1.5.1/temporal_cli_1.5.1_linux_arm64.tar.gz',
        sha256: 'bd1b0db9f18b051026de8bf6cc1505f2510f14bbb7a8b9a4a91fff46c77454f5',
      },
      'darwin-arm64': {
        url: 'https://github.com/temporalio/cli/releases/download/v1.5.1/temporal_cli_1.5.1_darwin_arm64.tar.gz',
        sha256: 'cca01b7ea35ad56e2a328d9ae596bf716bd22313ef63c7a761c88354457c2415',
      },
      'darwin-x64': {
        url: 'https://github.com/temporalio/cli/releases/download/v1.5.1/temporal_cli_1.5.1_darwin_amd64.tar.gz',
        sha256: 'bbb73e2a31135abe50a1f1cdb35030c42961df618e8ce9c60ae89f201540c5d9',
      },
    },
  },
  caddy: {
    archives: {
      'linux-x64': {
        url: 'https://github.com/caddyserver/caddy/releases/download/v2.11.6/caddy_2.11.6_linux_amd64.tar.gz',
        sha256: '22c84f8d2d4e4e0e2d422f8049fdd0fc1ed8d5665d0fe166f506c7fd863b4555',
      },
    },
  },
} satisfies Record<string, Release>

/**
 * Downloads the archive of a release for this platform and unpacks it into a folder. One try.
 * @throws Error when there is no such archive, and as {@link download}
 */
export async function downloadRelease(release: Release, into: string): Promise<void> {
  const pin = release.archives[`${process.platform}-${process.arch}`]
  if (!pin) throw new Error(`no pinned release for ${process.platform} on ${process.arch}`)
  const archive = join(into, 'archive.tar.gz')
  await download(pin, archive)
  await extract({ file: archive, cwd: into, preserveOwner: false })
  await rm(archive)
}
