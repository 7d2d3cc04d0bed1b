// Runs before `npm start` on whatever Node is there, and says what is missing before the first TypeScript file is read.
const { existsSync } = require('node:fs')
const path = require('node:path')

const installed = existsSync(path.join(__dirname, '../../node_modules/zod'))
const major = Number(process.versions.node.split('.')[0])
if (!installed || major < 24) {
  const wrong = installed ? `this is Node ${process.versions.node} and Plinth runs on Node 24` : 'the packages are not installed'
  const advice = process.platform === 'linux' ? 'run npm ci, which brings Node 24 along' : 'install Node 24, then run npm ci'
  process.stderr.write(`${wrong}: ${advice}\n`)
  process.exitCode = 1
}
