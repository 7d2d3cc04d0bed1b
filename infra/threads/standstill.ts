/**
 * Brings a function that tells how much time a thread has used, by a clock of its processor time, since its last sign of life. Its first
 * look counts as a sign of life.
 * @param beats its first element grows with every sign of life
 */
export function watchStandstill(beats: Int32Array, cpuMs: () => number): () => number {
  let seenBeats = -1
  let cpuAtBeat = 0
  return () => {
    const cpu = cpuMs()
    const beat = Atomics.load(beats, 0)
    if (beat !== seenBeats) {
      seenBeats = beat
      cpuAtBeat = cpu
    }
    return cpu - cpuAtBeat
  }
}
