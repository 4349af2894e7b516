/** The inside of a process that was started with `--inspect`: how much of its heap is alive. */
import { type Program, until } from '../test/program.ts'

type Inspector = { heapBytes(): Promise<number>; close(): void }

export async function openInspector(program: Program): Promise<Inspector> {
  const url = await until(() => /ws:\/\/\S+/.exec(program.err())?.[0], 30_000, 'the inspector listens')
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
      // What is only waiting to be thrown away is no growth.
      await send('HeapProfiler.collectGarbage')
      return (await send('Runtime.getHeapUsage')).usedSize ?? Number.NaN
    },
    close: () => socket.close(),
  }
}
