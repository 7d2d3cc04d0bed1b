/** Activities of the control queue, implemented in `activities/messengers.ts`. */
export interface MessengerActivities {
  /** Has each messenger that is set up call our webhook; returns a line for operators. */
  registerMessengerHooks(): Promise<string>
}
