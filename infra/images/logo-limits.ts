/** The longer edge of a logo; a larger one is made smaller. */
export const maxLogoEdge = 512
/** The width and the height of an icon; other images are made to fit. */
export const iconEdge = 64
/** An interlaced image has to be in memory as a whole: 80 MB with four channels of 16 bits. */
export const maxLogoPixels = 10_000_000
/** The exit code for bytes that are no image, or one of more pixels. */
export const unreadable = 3
