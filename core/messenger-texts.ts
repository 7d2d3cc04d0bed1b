import { codePeriodMs } from './access-login.ts'
import { connectPeriodMs } from './messengers.ts'
import type { PageLanguage } from './page-language.ts'

const codeMinutes = codePeriodMs / 60_000
const connectMinutes = connectPeriodMs / 60_000

/** What the bot answers. */
export interface BotTexts {
  /** To a person who writes without a link. */
  readonly hint: string
  readonly code: (host: string, code: string) => string
  /** The link has been used by somebody else, or is too old. */
  readonly loginOver: string
  readonly tooManyCodes: string
  readonly connectBegun: (project: string) => string
  readonly connectOver: string
  readonly noChannel: string
  readonly notAllowed: string
  readonly tooManyChannels: string
  readonly suspended: string
  readonly connected: (title: string) => string
  readonly away: string
}

export const botTexts: Record<PageLanguage, BotTexts> = {
  en: {
    hint: 'This bot sends codes to visitors of closed sites. Open it with the button on the login page of the site.',
    code: (host, code) =>
      [
        `Your code for ${host}: ${code}`,
        `Enter it yourself on the login page of ${host}. It is valid for ${codeMinutes} minutes and for one login.`,
        'If somebody sent you the link to this bot, or asks for the code, do not pass the code on: it would let them in as you.',
      ].join('\n\n'),
    loginOver: 'This link has been used or is too old. Reload the login page of the site, and use its button.',
    tooManyCodes: 'You have been sent too many codes. Try again later.',
    connectBegun: (project) =>
      [
        `You are about to connect a channel to the project "${project}". Its sites can then let in the subscribers of the channel.`,
        `Make this bot an administrator of the channel. Then forward a message of the channel to this chat, or send the @name of the channel, within ${connectMinutes} minutes.`,
        'If you did not ask for this link yourself, do nothing.',
      ].join('\n\n'),
    connectOver: 'This link has been used or is too old. Ask for another one.',
    noChannel:
      'This names no channel that the bot can see. Make the bot an administrator of the channel, and forward a message of it.',
    notAllowed: 'Both you and this bot must be administrators of the channel. Change that, and send it again.',
    tooManyChannels: 'The project has too many channels. Disconnect one of them first.',
    suspended: 'The project is suspended, so that no channel can be connected to it.',
    connected: (title) =>
      `The channel "${title}" is connected. Sites of the project can now be closed to all but its subscribers.`,
    away: 'The messenger does not answer at the moment. Try again in a minute.',
  },
  ru: {
    hint: 'Этот бот присылает коды посетителям закрытых сайтов. Откройте его кнопкой на странице входа сайта.',
    code: (host, code) =>
      [
        `Ваш код для ${host}: ${code}`,
        `Введите его сами на странице входа ${host}. Код действует ${codeMinutes} минут и подходит для одного входа.`,
        'Если ссылку на бота вам прислали или у вас просят код, никому его не передавайте: по нему войдут от вашего имени.',
      ].join('\n\n'),
    loginOver: 'Ссылка уже использована или устарела. Обновите страницу входа сайта и нажмите кнопку на ней.',
    tooManyCodes: 'Вам отправлено слишком много кодов. Попробуйте позже.',
    connectBegun: (project) =>
      [
        `Вы подключаете канал к проекту «${project}». Его сайты смогут впускать подписчиков канала.`,
        `Сделайте бота администратором канала. Затем в течение ${connectMinutes} минут перешлите сюда сообщение канала или отправьте его @имя.`,
        'Если вы не запрашивали эту ссылку сами, ничего не делайте.',
      ].join('\n\n'),
    connectOver: 'Ссылка уже использована или устарела. Запросите другую.',
    noChannel: 'Бот не видит такого канала. Сделайте бота администратором канала и перешлите сообщение из него.',
    notAllowed: 'И вы, и бот должны быть администраторами канала. Исправьте это и отправьте ещё раз.',
    tooManyChannels: 'У проекта слишком много каналов. Сначала отключите один из них.',
    suspended: 'Проект приостановлен, поэтому каналы к нему не подключаются.',
    connected: (title) => `Канал «${title}» подключён. Теперь сайты проекта можно закрыть для всех, кроме его подписчиков.`,
    away: 'Мессенджер сейчас не отвечает. Попробуйте ещё раз через минуту.',
  },
}

const maxShownName = 60

/** A name that somebody chose, as one short line. */
export const shownName = (name: string) =>
  name
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .trim()
    .slice(0, maxShownName)
    .toWellFormed()
