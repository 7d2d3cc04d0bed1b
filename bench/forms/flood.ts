import { goodPost, sendAtRate } from './posts.ts'

// Posts from one address at a fixed rate, in a process of its own. Prints how many posts had which status.
//   node flood.ts <port> <host> <site id> <origin> <address> <posts a second> <seconds>

const [port, host = '', id = '', origin = '', address = '', rate, seconds] = process.argv.slice(2)
const post = () => goodPost({ id, origin }, address)
const counts: Record<number, number> = {}
for (const { status } of await sendAtRate({ port: Number(port), host }, post, Number(rate), Number(seconds))) {
  counts[status] = (counts[status] ?? 0) + 1
}
console.log(JSON.stringify(counts))
process.exit()
