import { parentPort } from 'node:worker_threads'

parentPort?.postMessage('from a thread')
