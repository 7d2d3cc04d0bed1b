import { execFileSync } from 'node:child_process'
import { Client, Connection } from '@temporalio/client'
import { inject } from 'vitest'
import type { World } from '../world.ts'

/** A client of a world's Temporal server, which is closed with the stack. */
export async function openTemporalClient({ temporal }: World, stack: AsyncDisposableStack): Promise<Client> {
  const connection = await Connection.connect({ address: temporal.address })
  stack.defer(() => connection.close())
  return new Client({ connection, namespace: temporal.namespace })
}

/** What the Temporal CLI shows of a workflow: its history as JSON. */
export function showWorkflow({ address, namespace }: World['temporal'], workflowId: string, runId?: string): string {
  const run = runId === undefined ? [] : ['--run-id', runId]
  const server = ['--address', address, '--namespace', namespace, '--output', 'json']
  return execFileSync(inject('temporal'), ['workflow', 'show', '--workflow-id', workflowId, ...run, ...server]).toString()
}
