import type { MessengerName } from '../../core/messengers.ts'

/**
 * Why a login was refused: the answer is wrong, too many were tried, no more visits are allowed, the code is too old, or the form is not from the
 * login page.
 */
export type GateError = 'wrong' | 'wait' | 'full' | 'expired' | 'origin'

interface Asking {
  readonly error?: GateError
}

/** What the page asks for, and why the last answer was refused. */
export type GateState =
  | ({ readonly kind: 'password' } & Asking)
  /** The address of the visitor, to which a code is sent; members and payers are registered with it. */
  | ({ readonly kind: 'email' } & Asking)
  | ({ readonly kind: 'members' } & Asking)
  | ({ readonly kind: 'paid' } & Asking)
  | ({
      readonly kind: 'code'
      /** As the visitor entered it. */
      readonly email: string
      /** Names the code that was asked for; the form sends it back. */
      readonly challenge: string
    } & Asking)
  /** The rest of a registration, after the code: the name, and the consent. `wrong`: one of them is missing. */
  | ({ readonly kind: 'register'; readonly email: string; readonly name: string } & Asking)
  /** A member consents to the documents as they are now. */
  | ({ readonly kind: 'consent' } & Asking)
  /** What became of a registration. `seats`: there is no seat left. */
  | { readonly kind: 'pending' | 'rejected' | 'blocked' | 'seats' }
  /** The price, and the button to pay it. `wait`: too many payments were begun. */
  | ({ readonly kind: 'pay'; readonly email: string } & Asking)
  /** The owner takes the money and lets the member in. */
  | { readonly kind: 'pay_owner'; readonly email: string }
  /** A payment that is under way; the page reloads itself. */
  | {
      readonly kind: 'paying'
      /** The page of the payment provider; null until it is known. */
      readonly url: string | null
    }
  | { readonly kind: 'unpaid' }
  /** The channels whose subscribers are let in, and a button for each messenger. */
  | ({ readonly kind: 'subscribers' } & Asking)
  | ({
      readonly kind: 'messenger'
      readonly provider: MessengerName
      /** Opens the bot, which answers with a code. */
      readonly url: string
      readonly challenge: string
    } & Asking)
  /** Subscribes to none of the channels. */
  | { readonly kind: 'stranger' }
  /** The messenger does not answer. */
  | { readonly kind: 'away' }
  | { readonly kind: 'ended' }
  /** Whether a visitor who is inside wants to leave. */
  | { readonly kind: 'logout' }
