/** Starts the server as an operator would. */
import { join } from 'node:path'
import { type Ended, type Listening, listening, type Program, type Settings, startNode } from './program.ts'
import { setupCode } from './setup-code.ts'

/** The bundle of the sources (server-program.ts), or without one, the sources. */
export const serverMain = process.env.COFFER_TEST_SERVER ?? join(import.meta.dirname, '../server/src/main.ts')

/** `node server/src/main.ts …` */
export function startProgram(args: readonly string[], settings: Settings = {}): Program {
  return startNode([serverMain, ...args], settings)
}

export async function runProgram(args: readonly string[], settings: Settings = {}): Promise<Ended> {
  return startProgram(args, settings).ended
}

/** Starts the service on a free port unless the settings name one. */
export async function startListening(settings: Settings, nodeArgs: readonly string[] = []): Promise<Listening> {
  return listening(
    startNode([...nodeArgs, serverMain], {
      COFFER_PORT: '0',
      COFFER_RATE_LIMIT: '0',
      COFFER_SHARE_RATE_LIMIT: '0',
      COFFER_SETUP_CODE: setupCode,
      ...settings,
    }),
  )
}
