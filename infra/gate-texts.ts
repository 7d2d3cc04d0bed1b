import type { PageLanguage } from '../core/page-language.ts'
import type { GateError } from './gate-state.ts'

/** At which a login can be refused. */
type Step = 'password' | 'email' | 'code'

interface StepTexts {
  /** Of the window: what the page is about. */
  readonly title: string
  /** Of the page of a site without a title of its own. */
  readonly heading: string
  /** `{email}` is the address of the visitor. */
  readonly hint: string
}

interface FormTexts extends StepTexts {
  readonly label: string
  readonly button: string
}

interface Texts {
  readonly password: FormTexts
  readonly email: FormTexts
  readonly code: FormTexts & { readonly again: string; readonly other: string }
  readonly ended: StepTexts
  readonly logout: Omit<FormTexts, 'label'>
  readonly errorPrefix: string
  readonly errors: Readonly<Record<GateError, (step: Step) => string>>
}

/** The words of the login page. They are the same for listed and for other addresses. */
export const gateTexts: Readonly<Record<PageLanguage, Texts>> = {
  en: {
    password: {
      title: 'Enter the password',
      heading: 'This site is private',
      hint: 'Enter the password to continue.',
      label: 'Password',
      button: 'Continue',
    },
    email: {
      title: 'Enter your email address',
      heading: 'This site is private',
      hint: 'Enter your email address. We will send a code to it if it may visit the site.',
      label: 'Email address',
      button: 'Send the code',
    },
    code: {
      title: 'Enter the code',
      heading: 'Check your email',
      hint: 'If {email} may visit the site, a code is on its way. It is valid for 10 minutes.',
      label: 'Code from the email',
      button: 'Continue',
      again: 'Send a new code',
      other: 'Use another address',
    },
    ended: {
      title: 'Access has ended',
      heading: 'Access has ended',
      hint: 'Access to this site has ended. Ask its owner if you still need it.',
    },
    logout: {
      title: 'Sign out',
      heading: 'Sign out of this site?',
      hint: 'To see the site again in this browser, you will have to log in again.',
      button: 'Sign out',
    },
    errorPrefix: 'Error: ',
    errors: {
      wrong: (step) =>
        ({
          password: 'The password is not right. Check it and try again.',
          email: 'This is not an email address. Check it and try again.',
          code: 'The code is not right. Check it and try again.',
        })[step],
      wait: (step) =>
        step === 'code'
          ? 'This is too soon. Wait a minute, then try again or ask for a new code.'
          : `There were too many tries. Wait a minute and ${step === 'email' ? 'ask for a code' : 'try'} again.`,
      full: () => 'All visits that the owner allowed have been used. Ask the owner for access.',
      expired: () => 'The code is no longer valid. Ask for a new one.',
      origin: () => 'The form was not sent from this page. Try again here.',
    },
  },
  ru: {
    password: {
      title: 'Введите пароль',
      heading: 'Сайт закрыт паролем',
      hint: 'Введите пароль, чтобы продолжить.',
      label: 'Пароль',
      button: 'Продолжить',
    },
    email: {
      title: 'Введите адрес почты',
      heading: 'Сайт открыт не для всех',
      hint: 'Введите адрес электронной почты. Если ему разрешён доступ, мы отправим на него код.',
      label: 'Адрес почты',
      button: 'Отправить код',
    },
    code: {
      title: 'Введите код',
      heading: 'Проверьте почту',
      hint: 'Если адресу {email} разрешён доступ, код уже в пути. Он действует 10 минут.',
      label: 'Код из письма',
      button: 'Продолжить',
      again: 'Отправить новый код',
      other: 'Указать другой адрес',
    },
    ended: {
      title: 'Доступ закончился',
      heading: 'Доступ закончился',
      hint: 'Доступ к этому сайту закончился. Если он вам ещё нужен, обратитесь к владельцу сайта.',
    },
    logout: {
      title: 'Выход',
      heading: 'Выйти с сайта?',
      hint: 'Чтобы снова увидеть сайт в этом браузере, нужно будет войти ещё раз.',
      button: 'Выйти',
    },
    errorPrefix: 'Ошибка: ',
    errors: {
      wrong: (step) =>
        ({
          password: 'Неверный пароль. Проверьте его и попробуйте ещё раз.',
          email: 'Это не адрес электронной почты. Проверьте его и попробуйте ещё раз.',
          code: 'Неверный код. Проверьте его и попробуйте ещё раз.',
        })[step],
      wait: (step) =>
        step === 'code'
          ? 'Слишком рано. Подождите минуту, затем попробуйте ещё раз или запросите новый код.'
          : `Слишком много попыток. Подождите минуту и ${step === 'email' ? 'запросите код' : 'попробуйте'} ещё раз.`,
      full: () => 'Все посещения, которые разрешил владелец, использованы. Попросите у него доступ.',
      expired: () => 'Код больше не действует. Запросите новый.',
      origin: () => 'Форма отправлена не с этой страницы. Попробуйте ещё раз здесь.',
    },
  },
}
