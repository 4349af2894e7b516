/** The credential that commands use, in the order in which the SDK looks for one. */
import { existsSync } from 'node:fs'
import type { Environment } from '../environment.ts'
import { type Login, readLogins } from './login-file.ts'

/** Where docs/oidc.md mounts the projected token of a pod. */
const podTokenFile = '/var/run/coffer/token'

export type CredentialSource =
  | { readonly kind: 'token' | 'identity'; readonly from: string }
  | { readonly kind: 'login'; readonly from: string; readonly login: Login }

export function findCredentialSource(env: Environment, url: string | undefined): CredentialSource | undefined {
  if (env.COFFER_TOKEN) return { kind: 'token', from: 'COFFER_TOKEN' }
  if (env.COFFER_TOKEN_FILE) return { kind: 'token', from: `COFFER_TOKEN_FILE (${env.COFFER_TOKEN_FILE})` }
  if (env.ACTIONS_ID_TOKEN_REQUEST_URL && env.ACTIONS_ID_TOKEN_REQUEST_TOKEN) {
    return { kind: 'identity', from: 'the identity of GitHub Actions' }
  }
  if (env.COFFER_ID_TOKEN) return { kind: 'identity', from: 'COFFER_ID_TOKEN' }
  if (env.COFFER_ID_TOKEN_FILE) {
    return { kind: 'identity', from: `COFFER_ID_TOKEN_FILE (${env.COFFER_ID_TOKEN_FILE})` }
  }
  if (env.KUBERNETES_SERVICE_HOST && existsSync(podTokenFile)) return { kind: 'identity', from: podTokenFile }
  const login = url === undefined ? undefined : readLogins(env).byUrl[url]
  return login && { kind: 'login', from: login.store === 'keychain' ? 'the keychain' : 'the login file', login }
}
