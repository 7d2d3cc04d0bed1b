// the bundle that the control worker runs: every workflow type by its name
export { deploy } from './deploy.ts'
