import { createHash } from 'node:crypto'
import type { Insertable, Updateable } from 'kysely'
import { expect } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { randomName } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { type ClosedSite, type LoginAnswer, type LoginOptions, makeClosedSite, visitOf } from './closed-site.ts'

type Settings = Omit<Insertable<DB['member_settings']>, 'site_id' | 'project_id'>

/** A site with members, and what visitors do at its pages. */
export interface MemberSite extends ClosedSite {
  /** Sets what its owner asks, without the operations. */
  settings(change: Settings): Promise<void>
  /** Asks for a code as a visitor does, and reads it in the email. */
  codeFor(email: string, options?: LoginOptions): Promise<{ challenge: string; code: string }>
  /** Asks for a code and enters it. */
  login(email: string, options?: LoginOptions): Promise<LoginAnswer>
  register(proof: LoginAnswer, fields: Record<string, string>): Promise<LoginAnswer>
  /** The row of a member. */
  member(email: string): Promise<any>
  changeMember(email: string, values: Updateable<DB['members']>): Promise<void>
  /** The subjects of the emails to an address, but those with codes. */
  news(email: string): Promise<string[]>
  visit(answer: LoginAnswer): ReturnType<typeof visitOf>
}

export const newEmail = () => `${randomName('ada')}@example.com`
export const challengeOf = ({ body }: LoginAnswer) => /name="challenge" value="([0-9a-f-]{36})"/.exec(body)?.[1] ?? ''

export async function makeMemberSite(
  w: World,
  project: TestProject,
  mode: 'members' | 'paid' = 'members',
  settings: Settings = { moderation: false },
): Promise<MemberSite> {
  const site = await makeClosedSite(w, project, mode)
  const of = { site_id: site.id, project_id: project.id }
  const memberSite: MemberSite = {
    ...site,
    async settings(change) {
      await w.db
        .insertInto('member_settings')
        .values({ ...of, ...change })
        .onConflict((conflict) => conflict.column('site_id').doUpdateSet(change))
        .execute()
      await bumpRoutes(w.db, { site_id: site.id })
    },
    async codeFor(email, options) {
      const asked = await site.post(gatePaths.email, { email, to: '/' }, options)
      expect(asked.status).toBe(401)
      const mails = w.db
        .selectFrom('mails')
        .select('text')
        .where('recipient', '=', email)
        .where('kind', '=', 'access_code')
        .where('about', '=', site.id)
        .orderBy('id', 'desc')
      let code = ''
      await expect
        .poll(async () => {
          const texts = await mails.execute()
          code = /\b\d{6}\b/.exec(texts[0]?.text ?? '')?.[0] ?? ''
          return await isCodeOf(w, challengeOf(asked), code)
        })
        .toBe(true)
      return { challenge: challengeOf(asked), code }
    },
    async login(email, options) {
      const entered = await memberSite.codeFor(email, options)
      return await site.post(gatePaths.code, { email, ...entered, to: '/docs/' }, options)
    },
    register: (proof, fields) =>
      site.post(gatePaths.register, { to: '/docs/', ...fields }, { headers: { cookie: proof.cookie ?? '' } }),
    member: (email) =>
      w.db.selectFrom('members').selectAll().where('site_id', '=', site.id).where('email', '=', email).executeTakeFirst(),
    async changeMember(email, values) {
      await w.db.updateTable('members').set(values).where('site_id', '=', site.id).where('email', '=', email).execute()
    },
    async news(email) {
      const rows = await w.db
        .selectFrom('mails')
        .select('subject')
        .where('recipient', '=', email)
        .where('kind', '=', 'membership')
        .orderBy('id')
        .execute()
      return rows.map(({ subject }) => subject)
    },
    visit: (answer) => visitOf(site, answer),
  }
  await memberSite.settings(settings)
  return memberSite
}

async function isCodeOf(w: World, challenge: string, code: string): Promise<boolean> {
  const row = await w.db.selectFrom('access_codes').select('code_sha256').where('id', '=', challenge).executeTakeFirst()
  return (
    row?.code_sha256 ===
    createHash('sha256')
      .update(challenge + code)
      .digest('hex')
  )
}
