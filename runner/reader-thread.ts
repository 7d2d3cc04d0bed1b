import { getHeapStatistics } from 'node:v8'
import { createIgnore } from '../core/ignore-patterns.ts'
import { createSkippedPaths } from '../infra/archive/skipped-paths.ts'
import { serveCalls } from '../infra/threads/serve-calls.ts'
import { explainFailure, type Failure } from './explain-failure.ts'
import { type InstallPlan, nameInstall } from './install/install-inputs.ts'
import { createLogText, type LogEnd, type LogText } from './log-text.ts'
import { listFolder } from './output/list-folder.ts'
import { findOutput, type OutputRequest } from './output/output-folder.ts'
import { readSource, type SourceRequest, type SourceTree } from './source/read-source.ts'

// The thread that reads what one build at a time has sent or written: see readers.ts. What is large stays here from call to call.

let skipped = createSkippedPaths()
let tree: SourceTree | undefined
let isIgnored = createIgnore([])
let log: LogText | undefined

const calls = {
  async readSource(request: SourceRequest) {
    const { files, source, tree: found, ignore } = await readSource(request, skipped)
    tree = found
    isIgnored = createIgnore(ignore)
    return { files, source }
  },
  nameInstall(plan: InstallPlan) {
    const { root, paths, folder } = treeOf()
    return nameInstall(root, paths, folder, plan)
  },
  findOutput(request: OutputRequest) {
    const { root, paths, folder } = treeOf()
    return findOutput(root, folder, paths, request)
  },
  listFolder: (folder: string, prefix: string, maxFiles: number) => listFolder(folder, prefix, maxFiles, { skipped, isIgnored }),
  skip: (path: string, why: string) => skipped.add(path, why),
  listSkipped: () => skipped.list().map(({ path, reason }) => ({ path: logOf().mask(path), reason })),
  maskText: (text: string) => logOf().mask(text),
  explainFailure: (failure: Failure) => explainFailure(failure),
  openLog(secrets: readonly string[]) {
    log = createLogText(secrets)
  },
  pushLog: (bytes: Uint8Array) => logOf().push(bytes),
  showLog: () => logOf().show(),
  closeLog: (end: LogEnd) => logOf().close(end),
  readRecentLog: (rest: Uint8Array) => logOf().recent(rest),
  /** Forgets the build. Answers the bytes of the heap. */
  forget() {
    skipped = createSkippedPaths()
    tree = undefined
    isIgnored = createIgnore([])
    log = undefined
    return getHeapStatistics().total_heap_size + getHeapStatistics().external_memory
  },
}
export type ReaderCalls = typeof calls

serveCalls(calls)

function treeOf(): SourceTree {
  if (!tree) throw new Error('no source has been read')
  return tree
}

function logOf(): LogText {
  if (!log) throw new Error('no log has been opened')
  return log
}
