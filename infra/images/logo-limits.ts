/** The longer edge of a logo; a larger one is made smaller. */
export const maxLogoEdge = 512
/** An interlaced image has to be in memory as a whole: 80 MB with four channels of 16 bits. */
export const maxLogoPixels = 10_000_000
/** The exit code for bytes that are no image, or one of more pixels. */
export const unreadable = 3
