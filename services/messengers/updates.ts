import { botTexts } from '../../core/messenger-texts.ts'
import { type MessengerName, readStartPayload } from '../../core/messengers.ts'
import { type BotUpdate, MessengerError, type MessengerProvider } from '../../infra/messengers/provider.ts'
import { takeRates } from '../rates.ts'
import { transact } from '../transact.ts'
import { connectChannel, findOpenedLink, openConnectLink } from './connect.ts'
import { sendLoginCode } from './logins.ts'
import { messageRates } from './rates.ts'
import type { MessengerServices } from './services.ts'

/**
 * Answers what a person has sent to the bot. Messages beyond the rate of a person get no answer. A messenger that takes no answer loses it: the
 * person can send the message again.
 */
export async function takeUpdate(services: MessengerServices, name: MessengerName, update: BotUpdate): Promise<void> {
  const { user_id } = update
  const provider = services.messengers.open(name, `person:${user_id}`)
  if (!provider) return
  const rates = messageRates({ provider: name, user_id })
  if (await transact(services, (tx) => takeRates(tx, rates, services.clock()))) return
  const answer = await answerTo(services, provider, update)
  try {
    await provider.send(user_id, answer)
  } catch (error) {
    if (!(error instanceof MessengerError)) throw error
    services.log.warn({ messenger: name, reason: error.kind }, 'answer of the bot not sent')
  }
}

async function answerTo(services: MessengerServices, provider: MessengerProvider, update: BotUpdate): Promise<string> {
  const { said, lang, user_id } = update
  const { hint } = botTexts[lang]
  const { name } = provider
  if (said.kind === 'start') {
    const payload = readStartPayload(said.payload)
    if (!payload) return hint
    return payload.purpose === 'connect'
      ? await openConnectLink(services, name, update, payload.nonce)
      : await sendLoginCode(services, name, update, payload.nonce)
  }
  const connection = await findOpenedLink(services.db, name, user_id, services.clock())
  return connection ? await connectChannel(services, provider, connection, update) : hint
}
