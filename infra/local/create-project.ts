import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { planNames } from '../../core/plans.ts'
import { ConfigError, loadConfig } from '../config.ts'
import { apiOnSocket } from './api-client.ts'
import { readSecret } from './secrets.ts'

const usage = `Creates a project and prints its first key, once. Plinth has to be running.

  npm run project:create -- --name <name> --email <owner's address> [--plan ${planNames.join('|')}]`

/** `npm run project:create`: what an operator could do with curl. */
async function createProject(): Promise<string> {
  const options = {
    help: { type: 'boolean' },
    name: { type: 'string' },
    email: { type: 'string' },
    plan: { type: 'string', default: 'free' },
  } as const
  const { values } = parseArgs({ options, strict: true })
  if (values.help) return usage
  if (!values.name || !values.email) throw new ConfigError(usage)
  const config = loadConfig()
  const token = config.operatorToken ?? (await readSecret(join(config.dataDir, 'operator-token')))
  if (token === undefined)
    throw new ConfigError(`there is no operator token in ${config.dataDir}; start Plinth first with npm start`)
  const call = apiOnSocket(config.sockets.api)
  const post = async (path: string, body: object): Promise<Record<string, string>> => {
    const answer = await call(`POST /operator/v1${path}`, token, body)
    if (answer.status !== 200) throw new ConfigError(answer.body.message)
    return answer.body
  }
  const { id } = await post('/projects', { name: values.name, owner_email: values.email, plan: values.plan })
  const { key } = await post(`/projects/${id}/keys`, { name: 'First key', scope: 'full' })
  return `Project ${id} is there. Its key is shown only now:\n\n  ${key}`
}

try {
  process.stdout.write(`${await createProject()}\n`)
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException
  const unreachable = code === 'ENOENT' || code === 'ECONNREFUSED'
  process.stderr.write(`${unreachable ? 'Plinth does not answer; start it first with npm start' : message}\n`)
  process.exitCode = 1
}
