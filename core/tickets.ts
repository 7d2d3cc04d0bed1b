import { maxReturnLength } from './return-path.ts'
import { gatePaths } from './visits.ts'

// A visitor of a closed site gets to one of its permanent links by a ticket: the host of the link sends the browser to a host of the site, which
// sends it back with a ticket once the visitor has logged in there.

/** How long a ticket can be redeemed. */
export const ticketPeriodSeconds = 60

/**
 * The path at a host of the site that sends a visitor on to a permanent link of it.
 * @param link the token of the link
 * @param to the path at the host of the link; a long one becomes `/`, because the login would not return to it
 */
export function ticketRequestPath(link: string, to: string): string {
  const path = `${gatePaths.ticket}?link=${link}&to=${encodeURIComponent(to)}`
  return path.length <= maxReturnLength || to === '/' ? path : ticketRequestPath(link, '/')
}

/** The path at the host of the link that redeems a ticket. */
export const ticketPath = (ticket: string, to: string) => `${gatePaths.ticket}?ticket=${ticket}&to=${encodeURIComponent(to)}`
