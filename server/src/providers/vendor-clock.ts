/** Detects a wrong local clock. Vendors that check signing times then refuse every request, whatever the credential. */
import { VendorFault } from './fault.ts'
import type { VendorResponse } from './vendor-http.ts'

/** The strictest vendors allow five minutes; the response may have been on its way for a part of that. */
const toleratedMs = 4 * 60_000

/** Compares our clock with the response's date; undefined if they agree. */
export function clockFault({ status, headers, service }: VendorResponse, nowMs: number): VendorFault | undefined {
  const aheadMs = nowMs - Date.parse(headers.date ?? '')
  if (!(Math.abs(aheadMs) > toleratedMs)) return undefined
  const off = `${Math.round(Math.abs(aheadMs) / 60_000)} minutes ${aheadMs > 0 ? 'ahead' : 'behind'}`
  const message = `The clock of this server is ${off}, so the service refuses its signatures: correct the clock.`
  return new VendorFault('transient', message, { status, ...(service !== undefined && { service }) })
}
