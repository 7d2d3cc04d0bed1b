import { connect, type Socket } from 'node:net'
import { goodPost } from './posts.ts'

// The same post from one address at a fixed rate, in a process of its own that does as little as possible, because it shares the processors with
// what is measured. Prints how many posts had which status, and which share of a processor this program took.
//   node flood.ts <port> <host> <site id> <origin> <address> <posts a second> <seconds>

const [port, host = '', id = '', origin = '', address = '', rate, seconds] = process.argv.slice(2)
const { type, body } = goodPost({ id, origin }, address)
const head = [
  `POST /f/${id} HTTP/1.1`,
  `host: ${host}`,
  `origin: ${origin}`,
  `x-forwarded-for: ${address}`,
  `content-type: ${type}`,
  `content-length: ${Buffer.byteLength(body)}`,
]
const post = `${head.join('\r\n')}\r\n\r\n${body}`
const counts: Record<string, number> = {}
const idle: Socket[] = []

function open(): Socket {
  const socket = connect(Number(port), '127.0.0.1')
  // an answer arrives in one piece
  socket.on('data', (answer: Buffer) => {
    const status = answer.toString('latin1', 9, 12)
    counts[status] = (counts[status] ?? 0) + 1
    idle.push(socket)
  })
  return socket
}

/** Posts at once: a pause of this program is made up for slowly, and is no burst. */
const mostAtOnce = 10
const began = performance.now()
let sent = 0
const sending = setInterval(() => {
  const elapsed = (performance.now() - began) / 1000
  const due = Math.min(Math.floor(Number(rate) * elapsed) - sent, mostAtOnce)
  for (let i = 0; i < due; i++) (idle.pop() ?? open()).write(post)
  sent += Math.max(0, due)
  if (elapsed < Number(seconds)) return
  clearInterval(sending)
  const { user, system } = process.cpuUsage()
  console.log(JSON.stringify({ counts, processorShare: Number(((user + system) / 1e6 / elapsed).toFixed(2)) }))
  process.exit()
}, 1)
