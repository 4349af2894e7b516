/** Vendors who check when a request was signed refuse all that comes from a clock that is wrong: no credential mends that. */
import { VendorFault } from './fault.ts'
import type { VendorResponse } from './vendor-http.ts'

/** The strictest allow five minutes; an answer may be on its way for some of them. */
const toleratedMs = 4 * 60_000

/** The fault of our own clock, by the time that their answer bears; undefined where the two agree. */
export function clockFault({ status, headers, service }: VendorResponse, nowMs: number): VendorFault | undefined {
  const aheadMs = nowMs - Date.parse(headers.date ?? '')
  if (!(Math.abs(aheadMs) > toleratedMs)) return undefined
  const off = `${Math.round(Math.abs(aheadMs) / 60_000)} minutes ${aheadMs > 0 ? 'ahead' : 'behind'}`
  const message = `The clock of this server is ${off}, and the service refuses what is signed by it: set the clock right.`
  return new VendorFault('transient', message, { status, ...(service !== undefined && { service }) })
}
