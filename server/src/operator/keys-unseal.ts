/** `keys unseal`: hands shares of the master key to the sealed service on this machine. */
import type { Config } from '../config.ts'
import { openShareInput } from '../master-key/share-input.ts'
import { handToService } from '../master-key/unseal-socket.ts'
import { StartError } from '../start-error.ts'
import type { Print } from './with-operator.ts'

export async function unseal({ dataDir }: Config, print: Print): Promise<number> {
  const state = await handToService(dataDir, Buffer.alloc(0))
  if (!state) {
    throw new StartError(
      `No sealed service listens in ${dataDir}: check COFFER_DATA_DIR, and that the service runs as this user. An unsealed one needs no shares.`,
    )
  }
  print(`${state.message}\n`)
  const input = openShareInput()
  let refused = 0
  try {
    while (true) {
      const line = await input.next('Share (not shown; Enter alone stops): ')
      if (!line) break
      const answer = await handToService(dataDir, line).finally(() => line.fill(0))
      if (!answer) throw new StartError('The service is not sealed any more, or has stopped.')
      if (!answer.isAccepted) refused++
      print(`${answer.message}\n`)
      if (answer.isUnsealed) return 0
    }
  } finally {
    input.close()
  }
  return refused > 0 ? 1 : 0
}
