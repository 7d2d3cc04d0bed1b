import { registerHooks } from '../../services/messengers/hooks.ts'
import type { TestChannel } from '../doubles/bot-api.ts'
import { makeSite } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { post } from './closed-site.ts'

export type Messenger = 'telegram' | 'max'

let lastPerson = 5000
/** Another person for each call, as a messenger calls them. */
export const newPerson = () => (lastPerson += 1)

/** The payload of a link that opens the bot. */
const payloadIn = (text: string) => /\?start=([\w-]+)/.exec(text)?.[1] ?? ''

/** A person opens the bot with a link. */
export function opens(w: World, messenger: Messenger, person: number, link: string, lang = 'en'): Promise<number> {
  const payload = payloadIn(link)
  return messenger === 'telegram'
    ? w.telegram.says(w.base, person, `/start ${payload}`, lang)
    : w.max.starts(w.base, person, payload, lang)
}

/** What the bot has sent to the person last. */
export const lastAnswer = (w: World, messenger: Messenger, person: number): string =>
  w[messenger].sent.filter(({ to }) => to === person).at(-1)?.text ?? ''

export const listed = async (w: World, { key }: TestProject): Promise<any[]> =>
  (await w.call('GET /api/v1/messenger-channels', { key })).body

export const linkOf = async (w: World, { key }: TestProject, provider: Messenger): Promise<string> =>
  (await w.call('POST /api/v1/messenger-channels', { key, json: { provider } })).body.link

/** Connects a channel as its owner does. Returns its id here. */
export async function connect(w: World, project: TestProject, messenger: Messenger, channel: TestChannel): Promise<string> {
  if (!w[messenger].webhook) await registerHooks(w)
  const owner = newPerson()
  channel.roles.set(owner, 'owner')
  const before = (await listed(w, project)).map(({ id }) => id)
  await opens(w, messenger, owner, await linkOf(w, project, messenger))
  await w[messenger].forwards(w.base, owner, channel)
  const added = (await listed(w, project)).find(({ id }) => !before.includes(id))
  if (!added) throw new Error(lastAnswer(w, messenger, owner))
  return added.id
}

/** A site that lets in the subscribers of channels. */
export async function makeSubscribersSite(w: World, project: TestProject, channel_ids: readonly string[]) {
  const site = await makeSite(w, project)
  const { host } = new URL(site.url)
  const close = async (ids: readonly string[]) => {
    const json = { channel_ids: ids }
    return await w.call(`POST /api/v1/sites/${site.id}/access/subscribers-mode`, { key: project.key, json })
  }
  const closed = await close(channel_ids)
  if (closed.status !== 200) throw new Error(JSON.stringify(closed.body))
  return {
    id: site.id as string,
    subdomain: site.subdomain as string,
    host,
    url: site.url as string,
    hostname: new URL(site.url).hostname,
    close,
    post: (path: string, fields: Record<string, string>, options: Parameters<typeof post>[3] = {}) =>
      post(w, path, fields, { host, ...options }),
  }
}
