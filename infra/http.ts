/**
 * What we use of `node:http`. An import of that module reads all its exports, and one of them, `WebSocket`, loads undici: 0.13 s of processor
 * time and 5 MiB in each process.
 */
export const { Agent, createServer, request } = process.getBuiltinModule('node:http')
export type { ClientRequest } from 'node:http'
