/** What becomes of a member is a decision of the owner, or of a payment. */
export const memberStatuses = ['pending', 'active', 'rejected', 'blocked'] as const
export type MemberStatus = (typeof memberStatuses)[number]

/** Whether members are told which documents they agree to, or have to tick a box. */
export const consentModes = ['none', 'notice', 'checkbox'] as const
export type ConsentMode = (typeof consentModes)[number]

/** Whether the forms of the login page stand in a frame. */
export const formStyles = ['card', 'plain'] as const
export type FormStyle = (typeof formStyles)[number]
