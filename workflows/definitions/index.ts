// the bundle that the control worker runs: every workflow type by its name
export { connectDomain } from './connect-domain.ts'
export { deploy } from './deploy.ts'
export { expireTrashedSite } from './expire-trashed-site.ts'
export { recheckDomains } from './recheck-domains.ts'
export { sendMail } from './send-mail.ts'
export { sweepStorage } from './sweep-storage.ts'
export { switchSubdomain } from './switch-subdomain.ts'
