import { join } from 'node:path'
import { execa } from 'execa'

/**
 * The code that runs inside the workflow sandbox, as one script. Webpack takes a second or two and 200 MiB, which it never gives back: it
 * has a process of its own.
 * @param workflowsPath the file that exports the definitions
 */
export async function bundleWorkflowCode(workflowsPath: string): Promise<{ readonly code: string }> {
  const program = join(import.meta.dirname, 'bundle-process.ts')
  const { stdout } = await execa(process.execPath, [program, workflowsPath], { stripFinalNewline: false, stderr: 'inherit' })
  return { code: stdout }
}
