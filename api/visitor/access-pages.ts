import type { PageLanguage } from '../../core/page-language.ts'
import type { WebPage } from '../../infra/web-page.ts'

type Text = readonly [title: string, text: string]

const notFound: Record<PageLanguage, Text> = {
  en: ['There is no login here', 'No site answers at this address, or it has another address by now.'],
  ru: ['Здесь нет входа', 'По этому адресу нет сайта, или его адрес изменился.'],
}
const busy: Record<PageLanguage, Text> = {
  en: ['Not logged in yet', 'There is too much to do at the moment. Go back and try again in a minute.'],
  ru: ['Вход ещё не выполнен', 'Сейчас слишком много запросов. Вернитесь и попробуйте ещё раз через минуту.'],
}
const unread: Record<PageLanguage, Text> = {
  en: ['Not logged in', 'The form was not sent as it should be. Go back, reload the page and try again.'],
  ru: ['Вход не выполнен', 'Форма отправлена неверно. Вернитесь, обновите страницу и попробуйте ещё раз.'],
}
const foreign: Record<PageLanguage, Text> = {
  en: ['Nothing was changed', 'The form was sent from a page of another site. Open this site and try again.'],
  ru: ['Ничего не изменилось', 'Форма отправлена со страницы другого сайта. Откройте этот сайт и попробуйте ещё раз.'],
}
const failed: Record<PageLanguage, Text> = {
  en: ['Not logged in', 'The problem is on our side. Go back and try again in a few minutes.'],
  ru: ['Вход не выполнен', 'Ошибка на нашей стороне. Вернитесь и попробуйте ещё раз через несколько минут.'],
}

const texts: Readonly<Record<number, Record<PageLanguage, Text>>> = {
  403: foreign,
  404: notFound,
  429: busy,
  503: busy,
  500: failed,
}

/** The page between a login and a permanent link. */
export function goingOnPage(lang: PageLanguage, to: string): WebPage {
  const [title, text, open] = goingOn[lang]
  return { lang, title, text, link: { href: to, text: open } }
}

const goingOn: Record<PageLanguage, readonly [...Text, open: string]> = {
  en: ['You are in', 'The page that you asked for opens by itself.', 'Open it now'],
  ru: ['Вы вошли', 'Страница, которую вы открывали, откроется сама.', 'Открыть сейчас'],
}

/** The page for a ticket that was redeemed already, is over or belongs to another link. */
export function usedTicketPage(lang: PageLanguage, to: string): WebPage {
  const [title, text, again] = usedTicket[lang]
  return { lang, status: 403, title, text, link: { href: to, text: again } }
}

const usedTicket: Record<PageLanguage, readonly [...Text, again: string]> = {
  en: ['Not let in yet', 'The address that brought you here works once, for a minute.', 'Open the page again'],
  ru: ['Вход ещё не выполнен', 'Адрес, который привёл вас сюда, действует один раз и одну минуту.', 'Открыть страницу ещё раз'],
}

/** The page after a login or logout that could not be looked at. */
export function accessRefusalPage(lang: PageLanguage, status: number): WebPage {
  const [title, text] = (texts[status] ?? unread)[lang]
  return { lang, status, title, text }
}
