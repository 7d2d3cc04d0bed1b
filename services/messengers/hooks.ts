import type { MessengerName } from '../../core/messengers.ts'
import { isSecret } from '../../infra/crypto/messenger-secrets.ts'
import { MessengerError } from '../../infra/messengers/provider.ts'
import type { MessengerServices } from './services.ts'

/** The path of the webhook that the messenger calls. */
const hookPath = ({ messengers }: Pick<MessengerServices, 'messengers'>, name: MessengerName) =>
  `/hooks/${name}/${messengers.secrets.hookPath(name)}`

/** Has each messenger that is set up call our webhook. Returns a line for operators. May be repeated. */
export async function registerHooks(services: MessengerServices): Promise<string> {
  const { messengers, config, log } = services
  const done = await Promise.all(
    messengers.names.map(async (name) => {
      try {
        const url = config.urls.base + hookPath(services, name)
        await messengers.open(name, 'platform')?.register({ url, secret: messengers.secrets.hookHeader(name) })
        return `${name} calls its webhook`
      } catch (error) {
        if (!(error instanceof MessengerError)) throw error
        log.warn({ messenger: name, reason: error.message }, 'webhook of a messenger not registered')
        return `${name} did not take its webhook`
      }
    }),
  )
  return done.length === 0 ? 'no messenger is set up' : done.join(', ')
}

/** Whether a call of a webhook comes from the messenger, which knows both secrets. */
export function isFromMessenger(
  { messengers }: Pick<MessengerServices, 'messengers'>,
  name: MessengerName,
  given: { readonly path: string; readonly header: string },
): boolean {
  const { secrets } = messengers
  // both are compared, so that the time does not tell which one was wrong
  const isPath = isSecret(given.path, secrets.hookPath(name))
  return isSecret(given.header, secrets.hookHeader(name)) && isPath
}
