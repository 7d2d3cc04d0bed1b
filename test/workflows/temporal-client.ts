import { Client, Connection } from '@temporalio/client'
import type { World } from '../world.ts'

/** A client of a world's Temporal server, which is closed with the stack. */
export async function openTemporalClient({ temporal }: World, stack: AsyncDisposableStack): Promise<Client> {
  const connection = await Connection.connect({ address: temporal.address })
  stack.defer(() => connection.close())
  return new Client({ connection, namespace: temporal.namespace })
}
