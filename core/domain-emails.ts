import { verificationName } from './domains.ts'
import { composeEmail, type Email, type EmailKind, readable } from './emails.ts'

// The emails to the owner of a project about its domains.

type DomainEmail = Email & { readonly kind: Extract<EmailKind, `domain_${string}`> }

/** @param url the site at the domain; undefined for a wildcard, which has no URL */
export const liveEmail = (domain: string, site: string, url: string | undefined): DomainEmail =>
  composeEmail({ kind: 'domain_live', about: domain }, `${domain} is live`, [
    `The domain ${domain} now shows your site ${site}${url === undefined ? '.' : `: ${url}`}`,
    `Keep its TXT record ${verificationName(domain)}: it is looked for every day, and without it the domain stops after 7 days.`,
  ])

export const uncertifiedEmail = (domain: string, site: string, error: string): DomainEmail =>
  composeEmail({ kind: 'domain_uncertified', about: domain }, `${domain} has no certificate yet`, [
    `The domain ${domain} belongs to your site ${site}, but no certificate could be obtained for it, so browsers cannot open it over https.`,
    `What the certificate authority said: ${error}`,
    'Correct that, then verify the domain again.',
  ])

export const givenUpEmail = (domain: string, site: string, reason: string): DomainEmail =>
  composeEmail({ kind: 'domain_given_up', about: domain }, `${domain} could not be verified`, [
    `For 30 days no proof was found that the domain ${domain} is yours, so your site ${site} does not answer there.`,
    `The latest result: ${reason}.`,
    'Add the TXT record and verify the domain again, or delete it from the site.',
  ])

export const replacedEmail = (domain: string): DomainEmail =>
  composeEmail({ kind: 'domain_replaced', about: domain }, `${domain} was removed from your site`, [
    `You added the domain ${domain} more than 7 days ago and have not proved that it is yours. Now another project has added it, so it was removed from your site.`,
    'If it is yours, remove the records that lead it to this platform, or ask the operator.',
  ])

/** @param until when the domain stops */
export const missingEmail = (domain: string, site: string, until: Date): DomainEmail =>
  composeEmail({ kind: 'domain_missing', about: domain }, `The proof for ${domain} is gone`, [
    `The TXT record ${verificationName(domain)}, which proves that the domain ${domain} is yours, was not found any more.`,
    `If it is not back by ${readable(until)}, your site ${site} stops answering at ${domain}. list_domains shows the value that it must have.`,
  ])

export const lostEmail = (domain: string, site: string): DomainEmail =>
  composeEmail({ kind: 'domain_lost', about: domain }, `${domain} does not show your site any more`, [
    `The TXT record ${verificationName(domain)}, which proves that the domain ${domain} is yours, has been missing for 7 days. Your site ${site} does not answer there any more.`,
    'Add the record again: the domain comes back by itself within an hour, or at once when you verify it.',
  ])

/** @param notAfter when the certificate in use expires */
export const failingEmail = (domain: string, error: string, notAfter: Date): Email & { readonly kind: 'certificate_failing' } =>
  composeEmail({ kind: 'certificate_failing', about: domain }, `${domain} gets no new certificate`, [
    `The certificate of the domain ${domain} expires on ${readable(notAfter)}, and no new one could be obtained, so browsers will refuse the domain from then on.`,
    `What the certificate authority said: ${error}`,
    'Correct that; the order is repeated by itself.',
  ])
