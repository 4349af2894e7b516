/** Times are milliseconds internally, and ISO 8601 in UTC on the wire. */
export const iso = (ms: number): string => new Date(ms).toISOString()
export const maybeIso = (ms: number | null): string | null => (ms === null ? null : iso(ms))

export const secondMs = 1_000
export const minuteMs = 60 * secondMs
export const hourMs = 60 * minuteMs
export const dayMs = 24 * hourMs

/** Without its zone a time would mean whatever zone the machine is in. */
const zonedTime = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/i

/** NaN for a text that is no time, or has no zone. */
export const parseTime = (text: string): number => (zonedTime.test(text) ? Date.parse(text) : Number.NaN)
