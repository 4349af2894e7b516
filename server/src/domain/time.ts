/** Times are milliseconds inside and ISO 8601 in UTC on the wire. */
export const iso = (ms: number): string => new Date(ms).toISOString()
export const maybeIso = (ms: number | null): string | null => (ms === null ? null : iso(ms))

export const secondMs = 1_000
export const minuteMs = 60 * secondMs
export const hourMs = 60 * minuteMs
export const dayMs = 24 * hourMs
