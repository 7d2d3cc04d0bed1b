import { isPlainAddress, senderParts } from '../../core/emails.ts'

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
  /** A plain address; null when replies go to the sender. */
  readonly reply_to: string | null
  readonly subject: string
  readonly text: string
  readonly html: string
  /** An automatic reply to a visitor (RFC 3834), which nothing shall answer: neither a bounce nor another machine. */
  readonly isReply: boolean
}

export interface Mailer extends AsyncDisposable {
  /** Resolves when the mail server has accepted it. @throws EmailRefused, or another error when the server cannot be reached */
  send(email: OutgoingEmail): Promise<void>
}

const ownerHeaders = { 'Auto-Submitted': 'auto-generated' }
/** `Precedence` is for responders that are older than RFC 3834, and `X-Auto-Response-Suppress` for Exchange. */
const replyHeaders = { 'Auto-Submitted': 'auto-replied', 'X-Auto-Response-Suppress': 'All', Precedence: 'bulk' }

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
    async send({ id, sender, recipient, reply_to, subject, text, html, isReply }) {
      const from = senderParts(sender)
      if (!isPlainAddress(recipient)) throw new EmailRefused('emails cannot be sent to this address')
      try {
        await transport.sendMail({
          messageId: `<${id}@${from.address.slice(from.address.lastIndexOf('@') + 1)}>`,
          envelope: { from: isReply ? '' : from.address, to: [recipient] },
          from,
          to: [{ name: '', address: recipient }],
          ...(reply_to !== null && isPlainAddress(reply_to) && { replyTo: [{ name: '', address: reply_to }] }),
          subject,
          text,
          html,
          headers: isReply ? replyHeaders : ownerHeaders,
        })
      } catch (error) {
        throw isRefusal(error as SmtpError)
          ? new EmailRefused((error as Error).message, { cause: error })
          : toRetry(error as SmtpError)
      }
    },
    async [Symbol.asyncDispose]() {
      transport.close()
    },
  }
}

type SmtpError = NodeJS.ErrnoException & { readonly responseCode?: number; readonly command?: string }

/** The codes of errors about the recipients and about the message. */
const codesOfEmail = ['EENVELOPE', 'EMESSAGE']

/** Whether the recipient or the message was refused for good. A refused login or a full mailbox may still be corrected. */
function isRefusal({ code = '', responseCode = 0 }: SmtpError): boolean {
  return responseCode >= 500 && codesOfEmail.includes(code)
}

/** The error of a try that may be repeated. It goes to the log and to Temporal, so it leaves out an answer that may name the recipient. */
function toRetry({ message, code, responseCode, command }: SmtpError): Error {
  const isAboutEmail = code !== undefined && codesOfEmail.includes(code)
  const text = isAboutEmail ? `the mail server answered ${command ?? 'the message'} with ${responseCode ?? 'an error'}` : message
  return Object.assign(new Error(text), { code, responseCode, command })
}
