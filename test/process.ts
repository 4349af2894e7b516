/** The service as a separate process, with the test client. */
import { Agent } from 'node:http'
import { type Call, caller } from './caller.ts'
import type { Listening, Settings } from './program.ts'
import { startListening } from './start-server.ts'

export type Serving = Listening & { readonly call: Call }

/** Listens on a free port unless the settings name one. */
export async function serve(settings: Settings): Promise<Serving> {
  const service = await startListening(settings)
  const agent = new Agent({ keepAlive: true })
  return {
    ...service,
    call: caller(service.url, agent),
    stop: () => {
      // The service would keep idle connections open for a while before it stops.
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
      return service.stop()
    },
  }
}
