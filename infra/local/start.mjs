import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { env } from 'node:process'

// `npm start`. With the code that an earlier start has compiled, Node needs no compiler for TypeScript: 20 MiB and half of the processor time of
// loading less, in this process and in each of ours (main-process.ts). No other user can write into the folder.
const cacheDir = env.PLINTH_CACHE_DIR || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'plinth')
enableCompileCache(join(cacheDir, 'compiled'))
await import('./main.ts')
