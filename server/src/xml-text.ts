/** Reads the flat XML that AWS and its relatives answer with: elements without attributes, and text in them. */

/** Text of the first element that has text alone, as it was sent. */
export function tagIn(xml: string, tag: string): string | undefined {
  return new RegExp(`<${tag}>([^<]*)</${tag}>`).exec(xml)?.[1]
}
