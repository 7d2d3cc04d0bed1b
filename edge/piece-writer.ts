import type { ServerResponse } from 'node:http'
import type { WritePiece } from '../infra/cas/pieces.ts'

/** The visitor has closed the connection before the end of the response. */
export class VisitorLeft extends Error {
  constructor(cause?: unknown) {
    super('the visitor left before the end of the response', { cause })
  }
}

/** Writes pieces of a body at the pace of the visitor. @returns a function that throws {@link VisitorLeft} */
export function createPieceWriter(res: ServerResponse): WritePiece {
  let written: PromiseWithResolvers<void> | undefined
  const giveUp = (cause?: unknown) => written?.reject(new VisitorLeft(cause))
  res.once('close', () => giveUp())
  return async (piece) => {
    if (res.destroyed) throw new VisitorLeft()
    const pending = Promise.withResolvers<void>()
    written = pending
    res.write(piece, (error) => (error ? giveUp(error) : pending.resolve()))
    await pending.promise
  }
}
