/**
 * A Vault for tests of the command line: mounts of KV version 1 and 2 over plain HTTP, with tokens that see parts of
 * them. Written from the API documentation of Vault (secret/kv/kv-v1, secret/kv/kv-v2, system/internal-ui-mounts).
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Fields = Readonly<Record<string, unknown>>
type Mount = {
  readonly type: string
  readonly version?: '1' | '2'
  /** By path in the mount. Null stands for a deleted version. */
  readonly secrets: Readonly<Record<string, Fields | null>>
}

export type VaultServer = {
  readonly url: string
  /** Method and path of each request. */
  readonly requests: string[]
  /** Answers the request instead, if it returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined
  stop(): Promise<void>
}

type Options = {
  readonly token: string
  readonly namespace?: string
  readonly mounts: Readonly<Record<string, Mount>>
  /** Paths with their mount that the token must not read. */
  readonly forbidden?: readonly string[]
}

export async function startVault({ token, namespace, mounts, forbidden = [] }: Options): Promise<VaultServer> {
  const vault: { intercept: VaultServer['intercept'] } = { intercept: undefined }
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (vault.intercept?.(request, response)) return
    const { status, body } = answer(request)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })

  const errors = (status: number, ...texts: string[]) => ({ status, body: { errors: texts } })
  const wrapped = (data: unknown, status = 200) => ({
    status,
    body: { request_id: 'r', lease_id: '', renewable: false, lease_duration: 0, data, wrap_info: null, auth: null },
  })

  function answer({ headers, url = '' }: IncomingMessage) {
    if (headers['x-vault-token'] !== token) return errors(403, 'permission denied')
    if (headers['x-vault-namespace'] !== namespace) return errors(403, 'permission denied')
    const { pathname, searchParams } = new URL(url, 'http://vault')
    const path = decodeURIComponent(pathname).replace(/^\/v1\//, '')
    const preflight = /^sys\/internal\/ui\/mounts\/(.*)$/.exec(path)?.[1]
    const name = Object.keys(mounts).find((mount) => `${preflight ?? path}/`.startsWith(`${mount}/`))
    const mount = mounts[name ?? '']
    if (name === undefined || mount === undefined) return errors(403, 'preflight capability check returned 403')
    const { version } = mount
    if (preflight !== undefined) {
      return wrapped({ type: mount.type, path: `${name}/`, options: version ? { version } : null })
    }
    const inside = path.slice(name.length + 1)
    return searchParams.get('list') === 'true' ? list(name, mount, inside) : read(name, mount, inside)
  }

  function list(name: string, { version, secrets }: Mount, inside: string) {
    const folder = version === '2' ? within(inside, 'metadata') : inside
    if (folder === undefined) return errors(404)
    const start = folder === '' ? '' : `${folder}/`
    const keys = Object.keys(secrets)
      .filter((path) => path.startsWith(start))
      .map((path) => /^[^/]+\/?/.exec(path.slice(start.length))?.[0] ?? '')
    if (forbidden.includes(`${name}/${start}`)) return errors(403, 'permission denied')
    return keys.length === 0 ? errors(404) : wrapped({ keys: [...new Set(keys)].toSorted() })
  }

  function read(name: string, { version, secrets }: Mount, inside: string) {
    const path = version === '2' ? within(inside, 'data') : inside
    if (path === undefined) return errors(404)
    if (forbidden.includes(`${name}/${path}`)) return errors(403, '1 error occurred:\n\t* permission denied\n\n')
    const fields = secrets[path]
    if (fields === undefined) return errors(404)
    if (version !== '2') return wrapped(fields)
    const deletion_time = fields === null ? '2026-01-02T00:00:00Z' : ''
    const metadata = { created_time: '2026-01-01T00:00:00Z', deletion_time, destroyed: false, version: 1 }
    return wrapped({ data: fields, metadata }, fields === null ? 404 : 200)
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(vault, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
}

/** The rest of the path after the API's own word. */
const within = (path: string, word: string): string | undefined =>
  path === word ? '' : path.startsWith(`${word}/`) ? path.slice(word.length + 1) : undefined
