/**
 * What we use of `node:http`. An import of that module reads all its exports, and one of them, `WebSocket`, loads undici: 0.13 s of processor
 * time and 5 MiB in each process.
 */
export const { createServer, request } = process.getBuiltinModule('node:http')
