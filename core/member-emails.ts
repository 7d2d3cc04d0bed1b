import { composeEmail, type Email } from './emails.ts'
import type { PageLanguage } from './page-language.ts'

/** What a member is informed about. */
export type MemberNews = 'pending' | 'registered' | 'approved' | 'deleted'

type Text = (host: string) => readonly [subject: string, ...paragraphs: string[]]

const ignore = {
  en: 'If you did not register there, somebody else has used your address; ignore this email.',
  ru: 'Если вы там не регистрировались, кто-то указал ваш адрес; не обращайте внимания на это письмо.',
}

/** What the owner of the site and the member wrote is left out. */
const texts: Record<PageLanguage, Record<MemberNews, Text>> = {
  en: {
    pending: (host) => [
      `Your registration at ${host}`,
      `You have registered at ${host} with this address. The owner of the site decides about your registration; you will get an email when it is approved.`,
      ignore.en,
    ],
    registered: (host) => [
      `Your registration at ${host}`,
      `You have registered at ${host} with this address. To log in, enter the address there: we send a code to it.`,
      ignore.en,
    ],
    approved: (host) => [
      `Your registration at ${host} is approved`,
      `The owner of ${host} has approved your registration. To log in, enter this address there: we send a code to it.`,
    ],
    deleted: (host) => [
      `Your registration at ${host} is deleted`,
      `The owner of ${host} has deleted your registration. Your access to the site has ended.`,
    ],
  },
  ru: {
    pending: (host) => [
      `Ваша регистрация на ${host}`,
      `Вы зарегистрировались на ${host} с этим адресом. Регистрацию рассмотрит владелец сайта; когда он её одобрит, вы получите письмо.`,
      ignore.ru,
    ],
    registered: (host) => [
      `Ваша регистрация на ${host}`,
      `Вы зарегистрировались на ${host} с этим адресом. Чтобы войти, укажите его там: мы отправим на него код.`,
      ignore.ru,
    ],
    approved: (host) => [
      `Ваша регистрация на ${host} одобрена`,
      `Владелец ${host} одобрил вашу регистрацию. Чтобы войти, укажите этот адрес там: мы отправим на него код.`,
    ],
    deleted: (host) => [
      `Ваша регистрация на ${host} удалена`,
      `Владелец ${host} удалил вашу регистрацию. Доступ к сайту закончился.`,
    ],
  },
}

/** An email to a member of a site. */
export function memberEmail(
  news: MemberNews,
  { site_id, host, lang }: { readonly site_id: string; readonly host: string; readonly lang: PageLanguage },
): Email {
  const [subject, ...paragraphs] = texts[lang][news](host)
  return composeEmail({ kind: 'membership', about: site_id }, subject, paragraphs, lang)
}
