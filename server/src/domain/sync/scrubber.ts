/** Removes secrets from the texts of vendors, before anybody sees them. */

const hidden = '[hidden]'

/** Shorter values are words such as "eu" or "1", which sentences are full of: hiding them would only garble the text. */
export const minSecretLength = 8

export type Scrubber = {
  /** Adds secrets that no text may quote. */
  hide(secrets: Iterable<string>): void
  /**
   * Removes every secret of eight characters and more from a text, in all forms in which vendors quote it: plain,
   * escaped, encoded or truncated. Other text stays readable.
   */
  scrub(text: string): string
}

export function createScrubber(secrets: Iterable<string> = []): Scrubber {
  const hiding = new Set(secrets)
  /** Made at the first fault, and kept: a run may have thousands of secrets, and a fault for every name. */
  let spellings: readonly string[] | undefined

  return {
    hide(more) {
      for (const secret of more) hiding.add(secret)
      spellings = undefined
    },
    scrub(text) {
      spellings ??= allSpellings(hiding)
      let result = spellings.reduce((left, spelling) => left.replaceAll(spelling, hidden), text)
      for (const spelling of spellings) result = hideBeginnings(result, spelling)
      return result
    },
  }
}

/** A vendor that truncates its quote still shows the beginning of the secret. */
function hideBeginnings(text: string, secret: string): string {
  if (secret.length <= headLength + 4) return text
  let result = text
  for (let at = text.indexOf(secret.slice(0, headLength)); at !== -1; ) {
    let length = headLength
    while (length < secret.length && result[at + length] === secret[length]) length += 1
    result = result.slice(0, at) + hidden + result.slice(at + length)
    at = result.indexOf(secret.slice(0, headLength), at + hidden.length)
  }
  return result
}

/** Longest first, because a secret may contain another one. */
function allSpellings(secrets: ReadonlySet<string>): readonly string[] {
  return [...new Set([...secrets].flatMap(spellingsOf))].sort((a, b) => b.length - a.length)
}

const headLength = 12

function spellingsOf(secret: string): string[] {
  if (secret.trim().length < minSecretLength) return []
  const bytes = Buffer.from(secret)
  const lines = secret.split(/\r?\n/).filter((line) => line.trim().length >= minSecretLength)
  const encoded = [
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
  return [secret, ...(lines.length > 1 ? lines : []), ...encoded]
}
