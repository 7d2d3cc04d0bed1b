import { condition, defineSignal, setHandler } from '@temporalio/workflow'

/** Remembers whether a signal has arrived. */
export interface SignalFlag {
  isRaised(): boolean
  raise(): void
  lower(): void
  /** Waits until it is raised, or for `ms`. */
  wait(ms: number, summary: string): Promise<void>
}

/**
 * Takes a signal that says "look again" from now on.
 * @param description what operators read of the signal
 */
export function createSignalFlag(signal: string, description: string): SignalFlag {
  let raised = false
  const raise = () => {
    raised = true
  }
  setHandler(defineSignal(signal), raise, { description })
  return {
    isRaised: () => raised,
    raise,
    lower() {
      raised = false
    },
    async wait(ms, summary) {
      await condition(() => raised, ms, { summary })
    },
  }
}
