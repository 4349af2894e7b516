import { isLoopback } from '../../config.ts'
import type { Health } from '../../domain/health.ts'
import { Failure } from '../../failure.ts'
import { describeVersion } from '../../version.ts'
import type { Exchange, Route } from '../exchange.ts'
import type { ForwardedWatch } from '../request/forwarded-watch.ts'
import { plainRoute } from '../route.ts'

/** Liveness and readiness probes for orchestrators. */
export function healthRoutes(health: Health, forwarded: ForwardedWatch, isDraining: () => boolean): Route[] {
  return [
    plainRoute('/healthz', async () => ({ status: 'ok' }), true),
    plainRoute(
      '/readyz',
      async (exchange) => {
        if (isDraining()) throw new Failure('stopping')
        if (!('verbose' in Object(exchange.query))) {
          await health.checkReady()
          return { status: 'ready' }
        }
        const { isReady, checks } = await health.describe()
        exchange.statusCode = isReady ? 200 : 503
        const details = isFromHere(exchange) && {
          untrustedForwarded: forwarded.count,
          installation: await health.identify(),
        }
        return { status: isReady ? 'ready' : 'not ready', version: describeVersion(), checks, ...details }
      },
      true,
    ),
  ]
}

/** These details are for programs on this machine: they tell how the service is set up. */
function isFromHere({ socket, headers }: Exchange): boolean {
  const { remoteAddress = '', localAddress } = socket
  return headers['x-forwarded-for'] === undefined && (isLoopback(remoteAddress) || remoteAddress === localAddress)
}
