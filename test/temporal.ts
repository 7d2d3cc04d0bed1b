import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { inject } from 'vitest'
import { searchAttributes } from '../core/search-attributes.ts'
import { startTemporal } from '../infra/local/temporal.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'

/** Numbers of Temporal's `IndexedValueType`. */
const indexedTypes = { Keyword: 2, Datetime: 6 } as const
const indexed = Object.fromEntries(Object.entries(searchAttributes).map(([name, type]) => [name, indexedTypes[type]]))

/** The type asks for a `Long`; numbers are encoded as well. */
const aDay = { seconds: 86_400 as never }

/** A new namespace of the Temporal server that all tests of a run share. */
export async function registerNamespace(): Promise<TemporalAddress> {
  const address = inject('temporalAddress')
  const namespace = `test-${randomBytes(6).toString('hex')}`
  const connection = await Connection.connect({ address })
  try {
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: aDay })
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: indexed })
  } finally {
    await connection.close()
  }
  return { address, namespace }
}

/** A Temporal server of one test. */
export interface KillableTemporal extends AsyncDisposable {
  readonly temporal: TemporalAddress
  /** Ends it as a crash would. */
  readonly kill: () => Promise<void>
  /** Starts it again, with or without what it knew. */
  readonly start: (options: { readonly forget: boolean }) => Promise<void>
}

/** @param dir where it keeps its workflows */
export async function startKillableTemporal(dir: string): Promise<KillableTemporal> {
  const dbFile = join(dir, 'temporal.db')
  const options = { binary: inject('temporal'), searchAttributes, dbFile }
  let server = await startTemporal(options)
  const { address } = server
  return {
    temporal: { address, namespace: 'default' },
    async kill() {
      process.kill(server.pid, 'SIGKILL')
      await server.exited
    },
    async start({ forget }) {
      if (forget) for (const suffix of ['', '-wal', '-shm']) await rm(dbFile + suffix, { force: true })
      server = await startTemporal({ ...options, port: Number(address.split(':')[1]) })
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}
