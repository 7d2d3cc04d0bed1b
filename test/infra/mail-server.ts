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
  const state = {
    mood: 'takes' as Mood,
    /** Of single recipients. */
    moods: new Map<string, Mood>(),
    tries: 0,
    /** Each ends one of the mails that hang: it is put off. */
    hanging: [] as (() => void)[],
    /** Recipients whose mails were put off. */
    putOff: [] as string[],
  }
  const server = new SMTPServer({
    authOptional: true,
    allowInsecureAuth: true,
    onAuth: (_auth, _session, callback) => callback(null, { user: 'anybody' }),
    disabledCommands: ['STARTTLS'],
    // mail servers name the recipient in their answers
    onRcptTo({ address }, _session, callback) {
      state.tries += 1
      const mood = state.moods.get(address) ?? state.mood
      if (mood === 'hangs') {
        state.hanging.push(() => callback(Object.assign(new Error('busy, try later'), { responseCode: 451 })))
        return
      }
      if (mood === 'puts off') {
        state.putOff.push(address)
        return callback(Object.assign(new Error(`<${address}>: greylisted, try later`), { responseCode: 451 }))
      }
      if (mood === 'refuses') return callback(Object.assign(new Error(`<${address}>: no such user`), { responseCode: 550 }))
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
