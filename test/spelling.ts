/** Encodings in which a secret could leak. */
export function spellings(secret: Buffer): { readonly name: string; readonly bytes: Buffer }[] {
  const found = [
    { name: 'raw', bytes: secret },
    { name: 'hex', bytes: Buffer.from(secret.toString('hex')) },
    { name: 'capital hex', bytes: Buffer.from(secret.toString('hex').toUpperCase()) },
    { name: 'reversed', bytes: Buffer.from(secret).reverse() },
    { name: 'UTF-16', bytes: Buffer.from(secret.toString('latin1'), 'utf16le') },
  ]
  for (const offset of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(offset), secret])
    const whole = padded.subarray(0, padded.length - (padded.length % 3))
    // Omits characters that also encode bits of the preceding bytes.
    const text = whole.toString('base64').slice(offset === 0 ? 0 : 4)
    const alphabets = new Set([text, text.replaceAll('+', '-').replaceAll('/', '_')])
    for (const spelling of alphabets) found.push({ name: `base64 at ${offset}`, bytes: Buffer.from(spelling) })
  }
  return found
}
