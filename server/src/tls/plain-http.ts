/** Passwords and secrets must not cross a network in the clear unless the operator has asked for it. */
import { type Config, isLoopback } from '../config.ts'

/** Undefined if TLS is on, or plain HTTP is allowed. */
export function plainHttpProblem({ tls, host, trustedProxies, plainHttp }: Config): string | undefined {
  if (tls || plainHttp || isLoopback(host) || trustedProxies.length > 0) return undefined
  return `COFFER_HOST: plain http on ${host} would show secrets to the network: set COFFER_TLS_CERT_FILE and COFFER_TLS_KEY_FILE, or name the proxy that terminates TLS in COFFER_TRUSTED_PROXIES, or set COFFER_PLAIN_HTTP=on.`
}
