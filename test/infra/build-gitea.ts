import { findGitea } from './gitea.ts'

// so that its compiler does not run beside tests that look at the clock: node test/infra/build-gitea.ts
await findGitea()
