/** Activities of the control queue, implemented in `activities/stats.ts`. */
export interface StatsActivities {
  /** Makes salts, deletes what is over and cuts the tops of past days. Returns a line for operators. May be repeated. */
  rollUpStats(): Promise<string>
}
