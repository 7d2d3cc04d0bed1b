import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { systemCallFilter } from './seccomp.ts'

const files = {
  passwd: 'root:x:0:0:root:/:/bin/false\nbuild:x:1000:1000:build:/home/build:/bin/sh\n',
  group: 'root:x:0:\nbuild:x:1000:\n',
  hosts: '127.0.0.1 localhost build\n::1 localhost\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
}

/**
 * Writes what every sandbox mounts, readable by all users; the platform's own folder may not be. Returns the folder.
 * @param caFile certificates in PEM that builds trust beside the public ones
 */
export async function writeSupportFiles(buildDir: string, caFile: string | undefined): Promise<string> {
  const folder = join(buildDir, 'support')
  await rm(folder, { recursive: true, force: true })
  for (const name of ['', 'empty', 'scripts']) {
    await mkdir(join(folder, name))
    await chmod(join(folder, name), 0o755)
  }
  for (const script of ['relay.mjs', 'probe.mjs']) await publish(`scripts/${script}`, readFile(join(import.meta.dirname, script)))
  for (const [name, content] of Object.entries(files)) await publish(name, Promise.resolve(Buffer.from(content)))
  await publish('ca.pem', caBundle(caFile))
  // an empty one is refused by bubblewrap, so nothing runs without
  await publish('seccomp.bpf', Promise.resolve(systemCallFilter(process.arch) ?? Buffer.alloc(0)))
  return folder

  async function publish(name: string, content: Promise<Buffer>): Promise<void> {
    const path = join(folder, name)
    await writeFile(path, await content)
    await chmod(path, 0o644)
  }
}

/** A program that is given a bundle forgets its own list, so the public authorities have to be in it. */
async function caBundle(caFile: string | undefined): Promise<Buffer> {
  const own = caFile ? await readFile(caFile, 'utf8') : ''
  return Buffer.from(`${rootCertificates.join('\n')}\n${own}`)
}
