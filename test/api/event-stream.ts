export interface ReceivedEvent {
  readonly event: string
  readonly id: string | undefined
  readonly data: any
}

export interface EventStream {
  readonly response: Response
  /** The next event; undefined when the server has ended the stream. */
  next(): Promise<ReceivedEvent | undefined>
  all(): Promise<ReceivedEvent[]>
  leave(): void
}

/** Opens a stream of server-sent events. Comments are left out. */
export async function openEvents(url: string, headers: Readonly<Record<string, string>>): Promise<EventStream> {
  const left = new AbortController()
  const response = await fetch(url, { headers, signal: left.signal })
  let reader: ReadableStreamDefaultReader<string> | undefined
  let received = ''
  const stream: EventStream = {
    response,
    async next() {
      for (;;) {
        const [block, ...rest] = received.split('\n\n')
        if (rest.length > 0 && block !== undefined) {
          received = rest.join('\n\n')
          const fields = new Map(
            block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
          )
          if (fields.has('data')) {
            return { event: fields.get('event') ?? '', id: fields.get('id'), data: JSON.parse(fields.get('data') ?? '') }
          }
        } else {
          reader ??= response.body?.pipeThrough(new TextDecoderStream()).getReader()
          const chunk = await reader?.read()
          if (!chunk || chunk.done) return undefined
          received += chunk.value
        }
      }
    },
    async all() {
      const events: ReceivedEvent[] = []
      for (let event = await stream.next(); event; event = await stream.next()) events.push(event)
      return events
    },
    leave: () => left.abort(),
  }
  return stream
}
