/** Live heap size of a process started with `--inspect`. */
import type { Program } from '../../test/program.ts'
import { until } from '../../test/wait.ts'

type Inspector = { heapBytes(): Promise<number>; close(): void }

export async function openInspector(program: Program): Promise<Inspector> {
  const url = await until(() => /ws:\/\/\S+/.exec(program.err())?.[0], 120_000, 'the inspector listens')
  const socket = new WebSocket(url)
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', reject)
  })
  let last = 0
  const waiting = new Map<number, (result: { usedSize?: number }) => void>()
  socket.addEventListener('message', ({ data }) => {
    const { id, result }: { id?: number; result: object } = JSON.parse(String(data))
    if (id !== undefined) waiting.get(id)?.(result)
  })
  const send = (method: string) =>
    new Promise<{ usedSize?: number }>((resolve) => {
      waiting.set(++last, resolve)
      socket.send(JSON.stringify({ id: last, method }))
    })
  return {
    heapBytes: async () => {
      // Garbage that is not collected yet does not count as growth.
      await send('HeapProfiler.collectGarbage')
      return (await send('Runtime.getHeapUsage')).usedSize ?? Number.NaN
    },
    close: () => socket.close(),
  }
}
