import type { FormReason } from '../../core/forms.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import type { WebPage } from '../../infra/web-page.ts'

type Text = readonly [title: string, text: string]

const thanks: Record<PageLanguage, Text> = {
  en: ['Thank you, your message has been sent', 'You can close this page now.'],
  ru: ['Спасибо, сообщение отправлено', 'Эту страницу можно закрыть.'],
}

const backToSite: Record<PageLanguage, string> = { en: 'Back to the site', ru: 'Вернуться на сайт' }

const unread: Record<PageLanguage, Text> = {
  en: ['The message was not sent', 'The form was not filled in as it should be. Go back, check the message and send it again.'],
  ru: ['Сообщение не отправлено', 'Форма заполнена неверно. Вернитесь, проверьте сообщение и отправьте его ещё раз.'],
}
const closed: Record<PageLanguage, Text> = {
  en: ['The message was not sent', 'This site does not accept messages at the moment. Please contact its owner in another way.'],
  ru: ['Сообщение не отправлено', 'Сейчас сайт не принимает сообщения. Свяжитесь с его владельцем другим способом.'],
}
const foreign: Record<PageLanguage, Text> = {
  en: ['The message was not sent', 'This form does not belong to the site that it sends to. Please tell the owner of the page.'],
  ru: ['Сообщение не отправлено', 'Форма не принадлежит сайту, которому она отправляет. Сообщите об этом владельцу страницы.'],
}
const failed: Record<PageLanguage, Text> = {
  en: ['The message was not sent', 'The problem is on our side. Please go back and send it again in a few minutes.'],
  ru: ['Сообщение не отправлено', 'Ошибка на нашей стороне. Вернитесь и отправьте сообщение ещё раз через несколько минут.'],
}

const refusals: Record<FormReason, Record<PageLanguage, Text>> = {
  origin_required: foreign,
  origin_not_allowed: foreign,
  site_not_found: foreign,
  suspended: closed,
  quota_exhausted: closed,
  unsupported_content_type: unread,
  invalid_body: unread,
  too_many_fields: unread,
  body_too_large: {
    en: ['The message was not sent', 'It is too long. Go back, shorten it and send it again.'],
    ru: ['Сообщение не отправлено', 'Оно слишком длинное. Вернитесь, сократите его и отправьте ещё раз.'],
  },
  rate_limited: {
    en: ['The message was not sent yet', 'Too many messages arrived at once. Go back and send it again in a minute.'],
    ru: ['Сообщение ещё не отправлено', 'Слишком много сообщений сразу. Вернитесь и отправьте его ещё раз через минуту.'],
  },
}

/** The page after a message was sent. @param origin of the page with the form */
export function thankYouPage(lang: PageLanguage, origin: string): WebPage {
  const [title, text] = thanks[lang]
  return { lang, title, text, link: { href: `${origin}/`, text: backToSite[lang] } }
}

/** The page after a message was refused. @param reason undefined, or another one, when the platform failed */
export function refusalPage(lang: PageLanguage, status: number, reason: string): WebPage {
  const texts = Object.hasOwn(refusals, reason) ? refusals[reason as FormReason] : failed
  const [title, text] = texts[lang]
  return { lang, status, title, text }
}
