/**
 * Reads the flat XML that AWS and its relatives answer with: elements without attributes, and text in them. The text may
 * come from a hostile service, so each function reads it once from its start to its end.
 */

/** Text of the first element that has text alone, as it was sent. */
export function tagIn(xml: string, tag: string): string | undefined {
  const [begin, end] = [`<${tag}>`, `</${tag}>`]
  let at = xml.indexOf(begin)
  while (at !== -1) {
    const from = at + begin.length
    const to = xml.indexOf('<', from)
    if (to === -1) return undefined
    if (xml.startsWith(end, to)) return xml.slice(from, to)
    at = xml.indexOf(begin, to)
  }
  return undefined
}

/** The content of the first elements of this name, up to one without an end. They must not lie in one another. */
export function elementsIn(xml: string, tag: string, maxElements: number): string[] {
  const [begin, end] = [`<${tag}>`, `</${tag}>`]
  const found: string[] = []
  let at = xml.indexOf(begin)
  while (at !== -1 && found.length < maxElements) {
    const to = xml.indexOf(end, at + begin.length)
    if (to === -1) break
    found.push(xml.slice(at + begin.length, to))
    at = xml.indexOf(begin, to + end.length)
  }
  return found
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

export function unescapeXml(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(amp|lt|gt|quot|apos));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return entities[String(name).toLowerCase()] ?? whole
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code <= 0x10_ffff ? String.fromCodePoint(code) : whole
  })
}

export const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
