import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'

// Prints the script that runs inside the workflow sandbox: `node bundle-process.ts <path of the definitions>`.
// A worker keeps the script in two threads, so it is kept small: the source map has the lines of the sources and not their text, and every
// character is ASCII, because V8 keeps a string with any other as two bytes for each.

const [, , workflowsPath = ''] = process.argv
const { code } = await bundleWorkflowCode({
  workflowsPath,
  logger: new DefaultLogger('WARN'),
  webpackConfigHook: (config) => ({ ...config, devtool: 'inline-nosources-source-map' }),
})
process.stdout.write(code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`))
