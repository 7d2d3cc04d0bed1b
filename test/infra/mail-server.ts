import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'

export interface ReceivedMail extends Email {
  readonly envelope: { readonly from: string; readonly to: readonly string[] }
}

/** What the next mails meet; `refuses` the recipient for good, `hangs` without an answer. */
export type Mood = 'takes' | 'puts off' | 'refuses' | 'hangs'

/** An SMTP server that keeps what it takes. */
export async function startMailServer() {
  const received: ReceivedMail[] = []
  const state = { mood: 'takes' as Mood, tries: 0 }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onRcptTo(_address, _session, callback) {
      state.tries += 1
      if (state.mood === 'hangs') return
      if (state.mood === 'puts off') return callback(Object.assign(new Error('try later'), { responseCode: 451 }))
      if (state.mood === 'refuses') return callback(Object.assign(new Error('no such user'), { responseCode: 550 }))
      callback()
    },
    async onData(stream, session, callback) {
      const chunks: Buffer[] = []
      for await (const chunk of stream) chunks.push(chunk as Buffer)
      const { mailFrom, rcptTo } = session.envelope
      const envelope = { from: mailFrom ? mailFrom.address : '', to: rcptTo.map(({ address }) => address) }
      received.push({ ...(await PostalMime.parse(Buffer.concat(chunks))), envelope })
      callback()
    },
  })
  server.on('error', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  const { port } = server.server.address() as AddressInfo
  return {
    url: `smtp://127.0.0.1:${port}`,
    received,
    state,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}
