/**
 * GitHub's Actions secrets; driven by octokit in the test, and checked against its OpenAPI description in the deep
 * tier.
 */
import { readFileSync } from 'node:fs'
import blake from 'blakejs'
import nacl from 'tweetnacl'
import type { Values } from '../../../server/src/providers/provider.ts'
import { isDeep } from '../../tier.ts'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { type Description, type Judge, judgeBy } from '../openapi-judge.ts'

const token = 'github_pat_00000000_fake'

const description = (name: string): Description =>
  JSON.parse(readFileSync(new URL(`../node_modules/@octokit/openapi/generated/${name}.json`, import.meta.url), 'utf8'))

/** More than ten megabytes each: loaded once, on demand. */
const judges = new Map<string, Judge>()

const noJudge: Judge = { request: () => [], answer: () => [] }

function judgeOf(name: string): Judge {
  if (!isDeep) return noJudge
  const judge = judges.get(name) ?? judgeBy(description(name))
  judges.set(name, judge)
  return judge
}

type Secret = { value: string; createdAt: string; updatedAt: string; visibility?: unknown; repositories?: unknown }
type KeyPair = { id: string; publicKey: Uint8Array; secretKey: Uint8Array }

type FakeGitHub = Fake & {
  /** Rotates the public key: secrets encrypted for the old one are rejected. */
  rotateKey(): void
  secrets(place: string): ReadonlyMap<string, Secret>
}

/** Opens sealed boxes with another library than the service's. */
function openBox(sealed: Uint8Array, { publicKey, secretKey }: KeyPair): string | undefined {
  const sender = sealed.subarray(0, nacl.box.publicKeyLength)
  const nonce = blake.blake2b(Buffer.concat([sender, publicKey]), undefined, nacl.box.nonceLength)
  const opened = nacl.box.open(sealed.subarray(sender.length), nonce, sender, secretKey)
  return opened === null ? undefined : Buffer.from(opened).toString('utf8')
}

const places: Record<string, { path: string; target: Values }> = {
  repository: { path: '/repos/acme/shop/actions', target: { scope: 'repository', repository: 'acme/shop' } },
  environment: {
    path: '/repos/acme/shop/environments/release%2Feu',
    target: { scope: 'environment', repository: 'acme/shop', environment: 'release/eu' },
  },
  organization: {
    path: '/orgs/acme/actions',
    target: { scope: 'organization', organization: 'acme', visibility: 'selected', repositories: 'shop, billing' },
  },
}

export function fakeGitHub(scope = 'repository', { baseUrl }: { baseUrl?: string } = {}): FakeGitHub {
  const { path: home, target } = places[scope] ?? { path: '', target: {} }
  const stores = new Map(Object.values(places).map(({ path }) => [path, new Map<string, Secret>()]))
  const keys = new Map<string, KeyPair>()
  const violations: string[] = []
  const prefix = baseUrl === undefined ? '' : '/api/v3'
  const host = baseUrl === undefined ? 'api.github.com' : new URL(baseUrl).host
  const judge = judgeOf(baseUrl === undefined ? 'api.github.com' : 'ghes-3.19')
  const repositories = [
    { id: 101, full_name: 'acme/shop' },
    { id: 102, full_name: 'acme/billing' },
  ]
  let exists = true
  let clock = Date.UTC(2026, 0, 1)

  /** GitHub's timestamps have whole seconds. */
  function now(): string {
    clock += 1_000
    return new Date(clock).toISOString().replace('.000', '')
  }
  const storeOf = (place: string) => stores.get(place) ?? new Map<string, Secret>()
  const refuse = (status: number, message: string): FakeAnswer => ({
    status,
    body: { message, documentation_url: 'https://docs.github.com/rest', status: String(status) },
  })

  function keyOf(place: string): KeyPair {
    const known = keys.get(place)
    if (known) return known
    const { publicKey, secretKey } = nacl.box.keyPair()
    const key = { id: String(1_000 + Math.floor(Math.random() * 1e9)), publicKey, secretKey }
    keys.set(place, key)
    return key
  }

  function answer(request: FakeRequest): FakeAnswer {
    if (!request.path.startsWith(prefix)) return refuse(404, 'Not Found')
    const seen = { ...request, path: request.path.slice(prefix.length) }
    const wrong = judge.request(seen)
    if (!/\bapplication\/(vnd\.github[\w.+-]*\+)?json\b/.test(request.headers.accept ?? '')) wrong.push('Accept')
    if (!request.headers['user-agent']) wrong.push('no User-Agent, which GitHub refuses')
    violations.push(...wrong.map((what) => `${request.method} ${seen.path}: ${what}`))
    if (wrong.length > 0) return refuse(422, `Invalid request. ${wrong.join(', ')}`)
    const version = request.headers['x-github-api-version']
    if (version !== undefined && version !== '2022-11-28') return refuse(400, 'Not a version of this API')
    if (!['Bearer', 'token'].some((scheme) => request.headers.authorization === `${scheme} ${token}`)) {
      return refuse(401, 'Bad credentials')
    }
    const given = route(seen)
    // Full repository and user objects would need pages of test data; the tests check the fields that are read.
    if (given.status < 300 && /secrets/.test(seen.path)) {
      violations.push(...judge.answer(seen, given).map((what) => `${request.method} ${seen.path}: ${what}`))
    }
    return given
  }

  function route(request: FakeRequest): FakeAnswer {
    const { method, path } = request
    if (method === 'GET' && path === '/user') return { status: 200, body: { login: 'octo-ops', id: 1 } }
    if (method === 'GET' && path === '/user/repos') return page(request, repositories)
    if (method === 'GET' && path === '/user/orgs') return page(request, [{ login: 'acme', id: 9 }])
    const repository = repositories.find(({ full_name }) => path === `/repos/${full_name}`)
    if (method === 'GET' && repository) return { status: 200, body: repository }
    if (!exists) return refuse(404, 'Not Found')
    if (method === 'GET' && path === '/repos/acme/shop/environments') {
      return page(request, [{ name: 'release/eu' }, { name: 'staging' }], 'environments')
    }
    const [, place = '', name] = /^(.*)\/secrets(?:\/([^/]+))?$/.exec(path) ?? []
    const store = stores.get(place)
    if (!store) return refuse(404, 'Not Found')
    if (name === undefined)
      return page(
        request,
        [...store].map(([key, secret]) => show(key, secret, place)),
        'secrets',
      )
    if (name === 'public-key') {
      const { id, publicKey } = keyOf(place)
      return { status: 200, body: { key_id: id, key: Buffer.from(publicKey).toString('base64') } }
    }
    return secret(request, place, store, name.toUpperCase())
  }

  const show = (name: string, { createdAt, updatedAt, visibility }: Secret, place: string) => ({
    name,
    created_at: createdAt,
    updated_at: updatedAt,
    ...(place.startsWith('/orgs') && { visibility }),
  })

  function secret({ method, json }: FakeRequest, place: string, store: Map<string, Secret>, name: string): FakeAnswer {
    const known = store.get(name)
    if (method === 'GET') return known ? { status: 200, body: show(name, known, place) } : refuse(404, 'Not Found')
    if (method === 'DELETE') return store.delete(name) ? { status: 204 } : refuse(404, 'Not Found')
    const body = json as Record<string, unknown>
    const key = keyOf(place)
    if (fake.refusedNames.has(name) || !/^(?!GITHUB_)[A-Z_][A-Z0-9_]*$/.test(name)) {
      return refuse(422, 'Secret names can only contain alphanumeric characters and underscores.')
    }
    if (body.key_id !== key.id) return refuse(422, 'The key_id is not the one of the current public key.')
    if (body.visibility !== 'selected' && body.selected_repository_ids !== undefined) {
      return refuse(422, 'Repositories can be selected only where visibility is selected.')
    }
    const value = openBox(Buffer.from(String(body.encrypted_value), 'base64'), key)
    if (value === undefined) return refuse(422, 'The encrypted value could not be opened.')
    const updatedAt = now()
    const { visibility, selected_repository_ids } = body
    store.set(name, {
      value,
      createdAt: known?.createdAt ?? updatedAt,
      updatedAt,
      visibility,
      repositories: selected_repository_ids,
    })
    return known ? { status: 204 } : { status: 201, body: {} }
  }

  function page({ query, url, host: at }: FakeRequest, items: readonly unknown[], under?: string): FakeAnswer {
    const size = Math.min(Number(query.get('per_page') ?? 30), fake.pageSize ?? 100)
    const number = Number(query.get('page') ?? 1)
    const part = items.slice((number - 1) * size, number * size)
    const next = new URL(url, `https://${at}`)
    next.searchParams.set('page', String(number + 1))
    const headers = number * size < items.length ? { link: `<${next.href}>; rel="next"` } : {}
    return { status: 200, headers, body: under ? { total_count: items.length, [under]: part } : part }
  }

  const fake: FakeGitHub = {
    hosts: [host],
    credential: { token, ...(baseUrl !== undefined && { baseUrl }) },
    wrongCredential: { token: 'github_pat_wrong', ...(baseUrl !== undefined && { baseUrl }) },
    target,
    options: {},
    answer,
    violations,
    state: () => new Map([...storeOf(home)].map(([name, { value }]) => [name, value])),
    tamper(name, value) {
      const createdAt = storeOf(home).get(name)?.createdAt ?? now()
      if (value === undefined) storeOf(home).delete(name)
      else storeOf(home).set(name, { value, createdAt, updatedAt: now(), visibility: 'all' })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: () => 1, update: scope === 'organization' ? 5 : 3, look: 1 },
    rotateKey: () => keys.clear(),
    secrets: storeOf,
  }
  return fake
}
