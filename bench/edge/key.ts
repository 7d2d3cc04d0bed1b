/** The secret key of the edge that is measured. */
export const benchKey = Buffer.alloc(32, 1)
