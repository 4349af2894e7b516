/** For requests so slow that a second holds only a few: those under way at its end would cost without being counted. */
import { type Load, methodOf } from './load.ts'

/** Sends this many requests and waits for every response. */
export async function sendExactly(load: Load, count: number): Promise<void> {
  const { url, paths, body, connections } = load
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const run = Date.now()
  let sent = 0
  async function work(): Promise<void> {
    while (sent < count) {
      const index = sent++
      const response = await fetch(new URL(paths?.[index % paths.length] ?? '', url), {
        method: methodOf(load),
        headers: { ...load.headers, ...type },
        body: body?.replaceAll('§', `${run}_${index}`) ?? null,
      })
      if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
      await response.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: connections }, work))
}
