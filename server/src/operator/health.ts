/** `health`: asks the service on this machine whether it is up, for systems that can only run a command. */
import type { Config } from '../config.ts'
import { OutboundError } from '../outbound.ts'
import { askService } from './ask-service.ts'
import type { Print } from './with-operator.ts'

const timeoutMs = 4_000

/** Returns the exit code: 0 if the service is up, 1 otherwise. */
export async function checkHealth(config: Config, print: Print): Promise<number> {
  const { port } = config
  try {
    const { status } = await askService(config, '/healthz', timeoutMs)
    print(`The service on port ${port} answers with status ${status}.\n`)
    return status === 200 ? 0 : 1
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    print(`The service on port ${port}: ${error.message}\n`)
    // The process has answered. Whether clients trust its certificate is another question.
    return error.isCertificateRefused ? 0 : 1
  }
}
