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
 * Handles a signal that says "look again" from now on.
 * @param description the signal's description for operators
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
