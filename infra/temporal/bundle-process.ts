import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { asciiScript } from '../ascii-script.ts'

// Prints the script that runs inside the workflow sandbox: `node bundle-process.ts <path of the definitions>`.
// A worker keeps the script in two threads, so it is kept small: ASCII, and with the lines of the sources in its map, not their text.

const [, , workflowsPath = ''] = process.argv
const { code } = await bundleWorkflowCode({
  workflowsPath,
  logger: new DefaultLogger('WARN'),
  webpackConfigHook: (config) => ({ ...config, devtool: 'inline-nosources-source-map' }),
})
process.stdout.write(asciiScript(code))
