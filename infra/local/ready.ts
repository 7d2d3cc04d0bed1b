import { type Config, siteUrl } from '../config.ts'
import { caFile } from './caddy-process.ts'
import type { Demo } from './demo.ts'

export interface Ready {
  readonly config: Config
  /** Undefined when the operator gave the token. */
  readonly operatorTokenFile: string | undefined
  /** Undefined with a database of the operator's own. */
  readonly demo: Demo | undefined
}

/** What every start prints when everything runs. */
export function readyLines({ config, operatorTokenFile, demo }: Ready): string[] {
  const { urls, temporal } = config
  const site = demo?.site
  return [
    'Plinth is ready',
    `API ${urls.base}`,
    `Docs ${urls.base}/docs`,
    ...(demo ? [`Site ${site?.url ?? siteUrl(config, '<subdomain>')}`] : []),
    ...(temporal.uiUrl === undefined ? [] : [`Temporal UI ${temporal.uiUrl}`]),
    `Operator token ${operatorTokenFile ?? 'as given by PLINTH_OPERATOR_TOKEN'}`,
    `CA certificate ${caFile(config)}`,
    ...(demo ? [`Demo key ${demo.key}`] : ['First key npm run project:create']),
    'Deploy a folder',
    deployLine(urls.base, demo?.keyFile ?? '<key file>', site?.id ?? '<site id>'),
  ]
}

const deployLine = (base: string, keyFile: string, siteId: string) =>
  `tar -C <folder> --exclude=./node_modules --exclude=./.git -cz . | curl -sS -H "Authorization: Bearer $(cat ${keyFile})" -H 'Content-Type: application/gzip' --data-binary @- ${base}/api/v1/sites/${siteId}/deploys`
