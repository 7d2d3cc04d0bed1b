interface SecretForm {
  /** With its article, for a sentence. */
  readonly name: string
  /** Literals of which every match contains one: cheap to look for first. */
  readonly marks: readonly string[]
  readonly pattern: RegExp
}

/**
 * Narrower than what `masking.ts` hides: a mask may hide too much, advice that is often wrong is not read. Keys that browsers
 * are meant to carry (`pk_live_`, `AIza`) are not among them. Each pattern costs linear time on any text.
 */
const forms: readonly SecretForm[] = [
  {
    name: 'a private key',
    marks: ['PRIVATE KEY-----'],
    // programs name the first line too: only with a body it is a key
    pattern: /-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:\s|\\[nr]){0,8}[A-Za-z0-9+/]{40}/g,
  },
  { name: 'a key of this platform', marks: ['svc_'], pattern: /\bsvc_[A-Za-z0-9]{8}_[\w-]{43}/g },
  { name: 'an AWS access key', marks: ['AKIA', 'ASIA'], pattern: /\b(?:AKIA|ASIA)[A-Z2-7]{16}\b/g },
  { name: 'a Stripe key', marks: ['k_live_'], pattern: /\b[sr]k_live_[A-Za-z0-9]{20,}/g },
  { name: 'a GitHub token', marks: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], pattern: /\bgh[pousr]_[A-Za-z0-9]{36,}/g },
  { name: 'a GitHub token', marks: ['github_pat_'], pattern: /\bgithub_pat_\w{60,}/g },
  { name: 'a GitLab token', marks: ['glpat-'], pattern: /\bglpat-[\w-]{20,}/g },
  { name: 'an npm token', marks: ['npm_'], pattern: /\bnpm_[A-Za-z0-9]{36}\b/g },
  { name: 'a Slack token', marks: ['xoxa-', 'xoxb-', 'xoxp-', 'xoxr-', 'xoxs-'], pattern: /\bxox[abprs]-[A-Za-z0-9-]{20,}/g },
  { name: 'an OpenAI key', marks: ['sk-proj-', 'sk-svcacct-'], pattern: /\bsk-(?:proj|svcacct)-[\w-]{40,}/g },
  { name: 'an Anthropic key', marks: ['sk-ant-'], pattern: /\bsk-ant-[\w-]{40,}/g },
  { name: 'a SendGrid key', marks: ['SG.'], pattern: /\bSG\.[\w-]{22}\.[\w-]{43}/g },
  { name: 'a Telegram bot token', marks: [':AA'], pattern: /\b\d{8,10}:AA[\w-]{33}\b/g },
]

/** The name of the first secret in the text; undefined when there is none. Placeholders of manuals do not count. */
export function findSecret(text: string): string | undefined {
  for (const { name, marks, pattern } of forms) {
    if (!marks.some((mark) => text.includes(mark))) continue
    for (const [secret] of text.matchAll(pattern)) if (!isPlaceholder(secret)) return name
  }
  return undefined
}

/** `AKIAIOSFODNN7EXAMPLE`, `ghp_xxxxxxxx`, `sk_live_1234123412341234`. */
const isPlaceholder = (secret: string) => /example|your|xxxx|0{6}|1234567/i.test(secret) || new Set(secret.slice(-16)).size < 8
