import { randomBytes } from 'node:crypto'
import { conflict, unavailable } from '../../core/errors.ts'
import { botTexts, shownName } from '../../core/messenger-texts.ts'
import {
  type ChannelReference,
  connectPeriodMs,
  type MessengerName,
  maxChannelsPerProject,
  maxOpenConnections,
  mayConnect,
  messengerTitles,
  readChannelReference,
  startPayload,
} from '../../core/messengers.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Db } from '../../infra/db/database.ts'
import { type BotUpdate, type Channel, isAway, type MessengerProvider } from '../../infra/messengers/provider.ts'
import { withProject } from '../projects/projects.ts'
import type { MessengerServices } from './services.ts'

const earliest = (now: Date) => new Date(now.getTime() - connectPeriodMs)

/** A link that connects one channel, once. */
export interface ConnectLink {
  readonly link: string
  readonly expires_at: Date
}

/**
 * Makes a link to the bot, for a person who administers the channel. Of a project's links only the newest work.
 * @throws AppError `conflict` when the operator has not set the messenger up; `unavailable` when it does not answer
 */
export async function createConnectLink(
  services: MessengerServices,
  project_id: string,
  name: MessengerName,
): Promise<ConnectLink> {
  const provider = services.messengers.open(name, project_id)
  if (!provider) throw conflict(`the operator of this platform has not set up ${messengerTitles[name]}`)
  const nonce = randomBytes(24).toString('base64url')
  const link = await provider.deepLink(startPayload({ purpose: 'connect', nonce })).catch((error: unknown) => {
    throw isAway(error) ? unavailable(`${messengerTitles[name]} does not answer; try again in a minute`, 60) : error
  })
  const now = services.clock()
  await withProject(services, project_id, async (tx) => {
    const kept = tx
      .selectFrom('messenger_connections')
      .select('id')
      .where('project_id', '=', project_id)
      .where('created_at', '>', earliest(now))
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(maxOpenConnections - 1)
    await tx.deleteFrom('messenger_connections').where('project_id', '=', project_id).where('id', 'not in', kept).execute()
    const row = { project_id, provider: name, nonce_sha256: sha256Hex(nonce), created_at: now }
    await tx.insertInto('messenger_connections').values(row).execute()
    tx.afterCommit(() => services.log.info({ project_id, messenger: name }, 'link for a messenger channel made'))
  })
  return { link, expires_at: new Date(now.getTime() + connectPeriodMs) }
}

/** A person opens the bot with the link: the first one who does may name the channel. Returns what the bot answers. */
export async function openConnectLink(
  { db, clock }: Pick<MessengerServices, 'db' | 'clock'>,
  name: MessengerName,
  { user_id, lang }: BotUpdate,
  nonce: string,
): Promise<string> {
  const texts = botTexts[lang]
  const opened = await db
    .updateTable('messenger_connections')
    .set({ user_id })
    .where('provider', '=', name)
    .where('nonce_sha256', '=', sha256Hex(nonce))
    .where('created_at', '>', earliest(clock()))
    .where((eb) => eb.or([eb('user_id', 'is', null), eb('user_id', '=', user_id)]))
    .returning('project_id')
    .executeTakeFirst()
  if (!opened) return texts.connectOver
  const { name: project } = await db
    .selectFrom('projects')
    .select('name')
    .where('id', '=', opened.project_id)
    .executeTakeFirstOrThrow()
  return texts.connectBegun(shownName(project))
}

interface Connection {
  readonly id: string
  readonly project_id: string
}

/** The newest link that the person has opened and that still works. */
export function findOpenedLink(db: Db, provider: MessengerName, userId: string, now: Date): Promise<Connection | undefined> {
  return db
    .selectFrom('messenger_connections')
    .select(['id', 'project_id'])
    .where('provider', '=', provider)
    .where('user_id', '=', userId)
    .where('created_at', '>', earliest(now))
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** The person names a channel, or forwards a message of it. Returns what the bot answers. */
export async function connectChannel(
  services: MessengerServices,
  provider: MessengerProvider,
  connection: Connection,
  update: BotUpdate,
): Promise<string> {
  const texts = botTexts[update.lang]
  const reference = referenceIn(provider.name, update)
  try {
    const channel = reference && (await provider.findChannel(reference))
    if (!channel) return texts.noChannel
    const [role, isBotAdmin] = await Promise.all([
      provider.roleOf(channel.external_id, update.user_id),
      provider.isBotAdmin(channel.external_id),
    ])
    if (role === undefined || !mayConnect(role) || !isBotAdmin) return texts.notAllowed
    const refusal = await saveChannel(services, provider.name, connection, channel)
    return refusal === undefined ? texts.connected(shownName(channel.title)) : texts[refusal]
  } catch (error) {
    if (isAway(error)) return texts.away
    throw error
  }
}

function referenceIn(name: MessengerName, { said }: BotUpdate): ChannelReference | undefined {
  if (said.kind === 'forward') return { kind: 'id', id: said.channel }
  return said.kind === 'text' ? readChannelReference(name, said.text) : undefined
}

const maxTitleLength = 200

/** Connects the channel to the project, and uses the link up. Returns why it does not. */
function saveChannel(
  services: MessengerServices,
  provider: MessengerName,
  { id, project_id }: Connection,
  { external_id, username, url, ...channel }: Channel,
): Promise<'connectOver' | 'suspended' | 'tooManyChannels' | undefined> {
  return withProject(services, project_id, async (tx, project) => {
    if (project.suspended) return 'suspended'
    const others = await tx
      .selectFrom('messenger_channels')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('project_id', '=', project_id)
      .where((eb) => eb.not(eb.and([eb('provider', '=', provider), eb('external_id', '=', external_id)])))
      .executeTakeFirstOrThrow()
    if (others.count >= maxChannelsPerProject) return 'tooManyChannels'
    const used = await tx.deleteFrom('messenger_connections').where('id', '=', id).returning('id').executeTakeFirst()
    if (!used) return 'connectOver'
    const title = channel.title.replaceAll('\u0000', '').slice(0, maxTitleLength).toWellFormed()
    const described = { title, username, url, bot_is_admin: true }
    const { id: channel_id } = await tx
      .insertInto('messenger_channels')
      .values({ project_id, provider, external_id, ...described, connected_at: services.clock() })
      .onConflict((found) => found.columns(['project_id', 'provider', 'external_id']).doUpdateSet(described))
      .returning('id')
      .executeTakeFirstOrThrow()
    tx.afterCommit(() => services.log.info({ project_id, channel_id, messenger: provider }, 'messenger channel connected'))
    return undefined
  })
}
