import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'

// Prints the script that runs inside the workflow sandbox: `node bundle-process.ts <path of the definitions>`.

const [, , workflowsPath = ''] = process.argv
const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') })
process.stdout.write(code)
