import { loadRegistry } from './connection.ts'

/** Undefined for an unknown provider. */
export async function drawLogo(slug: string): Promise<string | undefined> {
  const { providers, announced } = await loadRegistry()
  const found = [...providers, ...announced].find((provider) => provider.slug === slug)
  if (!found) return undefined
  const { text, colour } = found.glyph
  const size = text.length > 2 ? 22 : 28
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img"><rect width="64" height="64" rx="12" fill="${colour}"/><text x="32" y="33" fill="#fff" font-family="sans-serif" font-size="${size}" font-weight="700" text-anchor="middle" dominant-baseline="central">${text}</text></svg>\n`
}
