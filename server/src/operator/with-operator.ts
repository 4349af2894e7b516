/** Opens the store for an operator command, and closes it afterwards. */
import { openServices } from '../app.ts'
import type { Config } from '../config.ts'
import { asOperator, type Context } from '../domain/context.ts'
import { createLog } from '../log.ts'
import { explainFileError } from '../open-store.ts'
import type { OpenMode } from '../store/engine/sqlite-connection.ts'

export type Print = (text: string) => number

export function withOperator(
  config: Config,
  access: OpenMode,
  work: (ctx: Context) => Promise<number>,
): Promise<number> {
  return explainFileError(config, () => withStore(config, access, work))
}

async function withStore(config: Config, access: OpenMode, work: (ctx: Context) => Promise<number>): Promise<number> {
  const services = await openServices(config, createLog('warn'), access)
  try {
    return await work(asOperator(services))
  } finally {
    await services.mail?.close()
    await services.engine.close()
  }
}
