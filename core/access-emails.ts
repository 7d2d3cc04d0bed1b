import { codePeriodMs } from './access-login.ts'
import { composeEmail, type Email } from './emails.ts'
import type { PageLanguage } from './page-language.ts'

const minutes = codePeriodMs / 60_000

/** The subject is shown to operators, so the code stands in the text only. What the owner of the site wrote is left out. */
const texts: Record<PageLanguage, (host: string, code: string) => readonly [subject: string, ...paragraphs: string[]]> = {
  en: (host, code) => [
    `Your code for ${host}`,
    `Your code: ${code}`,
    `Enter it on the page of ${host} that asked for it. It is valid for ${minutes} minutes and for one login.`,
    'If you did not ask for a code, ignore this email: nobody can log in without it. Tell the code to no one.',
  ],
  ru: (host, code) => [
    `Код для входа на ${host}`,
    `Ваш код: ${code}`,
    `Введите его на странице ${host}, которая его запросила. Код действует ${minutes} минут и подходит для одного входа.`,
    'Если вы не запрашивали код, не обращайте внимания на это письмо: без кода войти нельзя. Никому его не сообщайте.',
  ],
}

/** The email with the code that lets a visitor in. */
export function accessCodeEmail(login: {
  readonly site_id: string
  readonly host: string
  readonly code: string
  readonly lang: PageLanguage
}): Email {
  const { site_id, host, code, lang } = login
  const [subject, ...paragraphs] = texts[lang](host, code)
  return composeEmail({ kind: 'access_code', about: site_id }, subject, paragraphs, lang)
}
