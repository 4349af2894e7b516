/** The service as a process of its own, asked like one in the process of the test. */
import { Agent } from 'node:http'
import { type Call, caller } from './caller.ts'
import { type Listening, type Settings, startListening } from './program.ts'

export type Serving = Listening & { readonly call: Call }

/** On a free port unless the settings name one. */
export async function serve(settings: Settings): Promise<Serving> {
  const service = await startListening(settings)
  const agent = new Agent({ keepAlive: true })
  return {
    ...service,
    call: caller(service.url, agent),
    stop: () => {
      // Connections that rest would be kept a while, in case somebody asks once more.
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
      return service.stop()
    },
  }
}
