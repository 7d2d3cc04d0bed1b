/** The mail server has refused an email for good. The message is the server's. */
export class EmailRefused extends Error {
  override readonly name = 'EmailRefused'
}

export interface OutgoingEmail {
  /** Becomes the Message-ID, so that a repetition has the same one. */
  readonly id: string
  /** `Name <address>` or an address. */
  readonly sender: string
  readonly recipient: string
  readonly subject: string
  readonly text: string
  readonly html: string
}

export interface Mailer extends AsyncDisposable {
  /** Resolves when the mail server has accepted it. @throws EmailRefused, or another error when the server cannot be reached */
  send(email: OutgoingEmail): Promise<void>
}

/** One plain address: a quoted or commented one, or a list, could mean another recipient than it seems. */
const plainAddress = /^[a-z0-9._%+-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i
const addressOf = (sender: string) => /<([^<>]+)>\s*$/.exec(sender)?.[1] ?? sender.trim()

/** @param url `smtp://user:password@host:port`, or `smtps:` for TLS from the beginning */
export async function openMailer(url: string): Promise<Mailer> {
  // its library takes 5 MiB, which a platform without mail does not need
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    url,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ id, sender, recipient, subject, text, html }) {
      const from = addressOf(sender)
      if (!plainAddress.test(recipient)) throw new EmailRefused('emails cannot be sent to this address')
      try {
        await transport.sendMail({
          messageId: `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
          envelope: { from, to: [recipient] },
          from: sender,
          to: [{ name: '', address: recipient }],
          subject,
          text,
          html,
          headers: { 'Auto-Submitted': 'auto-generated' },
        })
      } catch (error) {
        throw isRefusal(error as NodeJS.ErrnoException) ? new EmailRefused((error as Error).message, { cause: error }) : error
      }
    },
    async [Symbol.asyncDispose]() {
      transport.close()
    },
  }
}

/** Whether the recipient or the message was refused for good. A refused login or a full mailbox may still be corrected. */
function isRefusal({ code = '', responseCode = 0 }: NodeJS.ErrnoException & { responseCode?: number }): boolean {
  return responseCode >= 500 && ['EENVELOPE', 'EMESSAGE'].includes(code)
}
