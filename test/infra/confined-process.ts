// Runs in place of the process that reads repositories, with its rights, and tries what a hostile repository that took it over would try.
// It is given as text (`node -e`), as its file lies outside of what it may read.

const { uid, outside, other, code, compiled, parent } = JSON.parse(process.argv[1] ?? '')
const { becomeUser } = await import(`${code}/infra/become-user.ts`)
if (uid !== undefined) becomeUser(uid)
const fs = await import('node:fs')
const { spawnSync } = await import('node:child_process')
const { Worker } = await import('node:worker_threads')

const attempts: Record<string, () => unknown> = {
  'write into a folder that is open to everybody': () => fs.writeFileSync(`${outside}/made`, 'x'),
  'change a file that is open to everybody': () => fs.appendFileSync(`${outside}/secret`, 'x'),
  'remove a file that is open to everybody': () => fs.rmSync(`${outside}/secret`),
  'write beside its folder': () => fs.writeFileSync('../made', 'x'),
  'write into the folder of another': () => fs.writeFileSync(`${other}/made`, 'x'),
  'write into the code': () => fs.writeFileSync(`${code}/infra/git/made`, 'x'),
  'write into the compiled code': () => fs.writeFileSync(`${compiled}/made`, 'x'),
  'make a folder outside': () => fs.mkdirSync(`${outside}/made`),
  'move its file outside': () => fs.renameSync('mine', `${outside}/made`),
  'copy its file outside': () => fs.copyFileSync('mine', `${outside}/made`),
  'link to a file outside': () => fs.symlinkSync(`${outside}/secret`, 'pointer'),
  'link hard to a file outside': () => fs.linkSync(`${outside}/secret`, 'twin'),
  'read a file that is open to everybody': () => fs.readFileSync(`${outside}/secret`),
  'read the users of the machine': () => fs.readFileSync('/etc/passwd'),
  'read the environment of its parent': () => fs.readFileSync(`/proc/${parent}/environ`),
  'list the folder of another': () => fs.readdirSync(other),
  'list the folders beside the code': () => fs.readdirSync(code),
  'start a program': () => {
    const { error } = spawnSync('/bin/true')
    if (error) throw error
  },
  'start a thread': () => new Worker('0', { eval: true }),
}

fs.writeFileSync('mine', 'written and read')
const outcome = (attempt: () => unknown): string => {
  try {
    attempt()
    return 'it succeeded'
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code ?? error)
  }
}
const refused = Object.fromEntries(Object.entries(attempts).map(([name, attempt]) => [name, outcome(attempt)]))
process.stdout.write(JSON.stringify({ own: fs.readFileSync('mine', 'utf8'), refused }))

// oxlint-disable-next-line require-module-specifiers -- makes it a module, for await
export {}
