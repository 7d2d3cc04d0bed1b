// the bundle that the control worker runs: every workflow type by its name
export { deploy } from './deploy.ts'
export { sweepStorage } from './sweep-storage.ts'
