import type { Config } from '../config.ts'

/** What connections and URLs in the text of an error are replaced by. */
const leftOut = '[left out]'
/** The edge's URL with certificates: private keys are there, so nobody may know its path. */
const edgeUrl = 'http://127\\.0\\.0\\.1:[0-9]+/[^"\\s]*'
/** The other end of a connection: a visitor. */
const otherEnd = '->(?:[0-9.]+|\\[[^\\]\\s]*\\]):[0-9]+'

/**
 * How Caddy writes its log, without secrets and without the addresses of visitors. It logs requests that break off, whose own address may be that of
 * a preview link or of a link to files, and whose headers may hold a bypass token or the secret of a webhook; and handshakes for which the edge does
 * not answer with a certificate.
 */
export function logEncoder({ urls }: Pick<Config, 'urls'>) {
  const removed = { filter: 'delete' }
  const preview = new URL(urls.preview).hostname
  return {
    format: 'filter',
    wrap: { format: 'json' },
    fields: {
      request: removed,
      remote_ip: removed,
      remote_port: removed,
      sni: { filter: 'regexp', regexp: `^.*\\.${preview.replaceAll('.', '\\.')}$`, value: `*.${preview}` },
      error: { filter: 'regexp', regexp: `${edgeUrl}|${otherEnd}`, value: leftOut },
    },
  } as const
}
