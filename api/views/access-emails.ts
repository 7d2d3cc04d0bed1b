import { z } from 'zod'
import { shownInvalid } from '../../core/access-addresses.ts'
import { loginResults } from '../../core/access-login.ts'
import { type EmailWithLogins, type listForeignAttempts, shownAttempts, shownLogins } from '../../services/access/emails.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const AccessEmail = z
  .object({
    id: z.uuid(),
    email: z.string(),
    label: z.string().nullable(),
    created_at: time,
    last_login_at: time.nullable().describe('Null before the first login.'),
    logins: z
      .array(
        z.object({
          at: time,
          name: z.string().nullable().describe('The label of the address.'),
          device: writtenBy('visitors', z.string()),
          ip_masked: z.string(),
          result: z
            .string()
            .describe(`One of ${loginResults.join(', ')}: with the last one, all opens of the site were used up.`),
        }),
      )
      .max(shownLogins)
      .describe('The last 20, newest first.'),
  })
  .meta({ id: 'AccessEmail' })

export const AccessEmails = z
  .object({
    items: z.array(AccessEmail),
    foreign_attempts: z
      .array(z.object({ email_masked: writtenBy('visitors', z.string()), at: time, device: writtenBy('visitors', z.string()) }))
      .max(shownAttempts)
      .describe('The last 100 attempts with addresses that are not listed, newest first.'),
    total: z.int().describe('How many addresses the site has.'),
    limit: z.int().describe('How many addresses it may have.'),
  })
  .meta({ id: 'AccessEmails' })

export const AddedEmails = z
  .object({
    added: z.int(),
    duplicates: z.int().describe('How many were given more than once or are listed already.'),
    invalid: z
      .array(z.string())
      .max(shownInvalid)
      .describe('The first 100 texts that are not plain addresses, each with at most 100 characters.'),
    total: z.int().describe('How many addresses the site has now.'),
  })
  .meta({ id: 'AddedEmails' })

export const emailView = ({ id, email, label, logins, ...row }: EmailWithLogins): z.input<typeof AccessEmail> => ({
  id,
  email,
  label,
  created_at: isoTime(row.created_at),
  last_login_at: isoTimeOrNull(row.last_login_at),
  logins: logins.map(({ at, device, ip_masked, result }) => ({ at, name: label, device, ip_masked, result })),
})

type Attempt = Awaited<ReturnType<typeof listForeignAttempts>>[number]

export const attemptView = ({ email_masked, at, device }: Attempt): z.input<typeof AccessEmails>['foreign_attempts'][number] => ({
  email_masked,
  at: isoTime(at),
  device,
})
