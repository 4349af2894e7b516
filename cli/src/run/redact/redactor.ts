/**
 * Replaces values in a stream of bytes. A bitmap of the first four bytes of all values answers most positions with one look,
 * so that the number of values hardly matters. Seat belt, not boundary: a command can always print a value in another form.
 */

export type Redactor = { openStream(): RedactedStream }

export type RedactedStream = {
  /** Returns what may be shown. Bytes at the end that may be the start of a value are held back. */
  push(chunk: Buffer): Buffer[]
  /** Shows what is held back. If the rest of a value follows, that rest is still hidden. */
  release(): Buffer[]
  /** Where in the stream the bytes start that are held back; undefined if there are none. */
  heldAt(): number | undefined
}

const mask = Buffer.from('***')
const prefixBytes = 4
const slotBits = 20
const slotOf = (prefix: number) => Math.imul(prefix, 0x9e3779b1) >>> (32 - slotBits)

/** Each form must have at least four bytes. */
export function createRedactor(forms: readonly Buffer[]): Redactor {
  const bitmap = new Uint8Array(2 ** slotBits / 8)
  const byPrefix = new Map<number, Buffer[]>()
  /** The first one, two and three bytes of each form. */
  const starts = new Set<string>()
  for (const form of forms) {
    const prefix = form.readInt32LE(0)
    const slot = slotOf(prefix)
    bitmap[slot >>> 3] = (bitmap[slot >>> 3] ?? 0) | (1 << (slot & 7))
    const others = byPrefix.get(prefix)
    if (others) others.push(form)
    else byPrefix.set(prefix, [form])
    for (let length = 1; length < prefixBytes; length++) starts.add(form.toString('latin1', 0, length))
  }
  return { openStream }

  function openStream(): RedactedStream {
    let held: Buffer = Buffer.alloc(0)
    /** Bytes of `held` that have been written already: shown by `release`, or hidden as part of another value. */
    let written = 0
    let isMasked = false
    /** Position of `held` in the stream. */
    let offset = 0

    /** Unless it is the end, a position where a value may begin that is not complete ends the scan. */
    function scan(bytes: Buffer, isEnd: boolean): Buffer[] {
      const shown: Buffer[] = []
      let next = written
      let maskedUntil = isMasked ? written : 0
      let holdAt = bytes.length
      const lastPrefix = bytes.length - prefixBytes
      let prefix = 0
      for (let at = 0; at < Math.min(bytes.length, prefixBytes - 1); at++) prefix |= (bytes[at] ?? 0) << (8 * (at + 1))
      for (let at = 0; at <= lastPrefix && at < holdAt; at++) {
        prefix = (prefix >>> 8) | ((bytes[at + 3] ?? 0) << 24)
        const slot = slotOf(prefix)
        if (((bitmap[slot >>> 3] ?? 0) & (1 << (slot & 7))) === 0) continue
        let length = 0
        for (const form of byPrefix.get(prefix) ?? []) {
          const end = Math.min(at + form.length, bytes.length)
          if (bytes.compare(form, 0, end - at, at, end) !== 0) continue
          if (end - at === form.length) length = Math.max(length, form.length)
          else if (!isEnd) holdAt = at
        }
        if (length === 0) continue
        if (at >= maskedUntil && at + length > written) {
          if (at > next) shown.push(bytes.subarray(next, at))
          shown.push(mask)
        }
        maskedUntil = Math.max(maskedUntil, at + length)
        next = Math.max(next, maskedUntil)
      }
      for (let at = Math.max(0, lastPrefix + 1); at < holdAt && !isEnd; at++) {
        if (starts.has(bytes.toString('latin1', at))) holdAt = at
      }
      if (holdAt > next) shown.push(bytes.subarray(next, holdAt))
      isMasked = isEnd ? maskedUntil >= bytes.length : maskedUntil >= next && next > holdAt
      written = isEnd ? bytes.length : Math.max(0, next - holdAt)
      if (isEnd) return shown
      offset += holdAt
      // A copy: the chunk belongs to the stream.
      held = Buffer.from(bytes.subarray(holdAt))
      return shown
    }

    return {
      push: (chunk) => scan(held.length === 0 ? chunk : Buffer.concat([held, chunk]), false),
      release: () => scan(held, true),
      heldAt: () => (held.length > written ? offset : undefined),
    }
  }
}
