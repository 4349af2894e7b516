/** One Azure Key Vault with soft delete, and the login before it; driven by Azure's clients in azure-key-vault.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const vault = 'shop-production.vault.azure.net'
const login = 'login.microsoftonline.com'
export const azureCredential = {
  tenantId: '11111111-2222-4333-8444-555555555555',
  clientId: '66666666-7777-4888-8999-aaaaaaaaaaaa',
  clientSecret: 'fake~client.secret',
}
const token = 'eyJ.fake-azure-token.x'

type Secret = {
  /** As first written; lookups ignore case. */
  name: string
  versions: string[]
  updated: number
  tags: Record<string, string>
  contentType?: string
  managed?: true
  isDeleted?: true
}

export type FakeKeyVault = Fake & {
  secret(name: string): Secret | undefined
  /** Adds the private key of a certificate. */
  plantCertificate(name: string): void
  /** Number of requests that fail while the vault recovers or deletes. */
  lag: number
  /** Origin of the next-page links. */
  nextPageOrigin: string
}

const refuse = (status: number, code: string, message: string, inner?: string): FakeAnswer => ({
  status,
  body: { error: { code, message, ...(inner && { innererror: { code: inner } }) } },
})

export function fakeKeyVault(): FakeKeyVault {
  const secrets = new Map<string, Secret>()
  const violations: string[] = []
  let exists = true
  let seconds = 1_800_000_000
  let busy: { name: string; left: number; code: string } | undefined

  const idOf = ({ name, versions }: Secret) =>
    `https://${vault}/secrets/${name}/${versions.length.toString(16).padStart(32, '0')}`
  const shown = (secret: Secret, id: string) => ({
    id,
    attributes: {
      enabled: true,
      created: 1_800_000_000,
      updated: secret.updated,
      recoveryLevel: 'Recoverable+Purgeable',
    },
    ...(Object.keys(secret.tags).length > 0 && { tags: secret.tags }),
    ...(secret.contentType && { contentType: secret.contentType }),
    ...(secret.managed && { managed: true }),
  })
  const missing = (name: string) =>
    refuse(404, 'SecretNotFound', `A secret with (name/id) ${name} was not found in this key vault.`)

  function answer(request: FakeRequest): FakeAnswer {
    const { path, query, headers } = request
    if (path.endsWith('/.well-known/openid-configuration')) return describeLogin(request)
    if (path.endsWith('/oauth2/v2.0/token')) return logIn(request)
    if (headers.authorization !== `Bearer ${token}`) {
      if (request.text !== '' && headers.authorization === undefined)
        violations.push(`${path}: a value without a token`)
      const challenge = `Bearer authorization="https://${login}/${azureCredential.tenantId}", resource="https://vault.azure.net"`
      return {
        ...refuse(401, 'Unauthorized', 'AKV10000: Request is missing a Bearer token.'),
        headers: { 'www-authenticate': challenge },
      }
    }
    if (!/^(7\.[0-6]|20\d\d-\d\d-\d\d)$/.test(query.get('api-version') ?? '')) violations.push(`${path}: api-version`)
    const [, collection = '', name = '', action = ''] = path.split('/')
    const operation = `${request.method} ${collection}${name && '/name'}${action && `/${action}`}`
    const handle = operations[operation]
    if (handle === undefined) {
      violations.push(`${request.method} ${path}: not an operation that this fake has`)
      return refuse(405, 'MethodNotAllowed', '')
    }
    if (name !== '' && (!/^[0-9a-zA-Z-]{1,127}$/.test(name) || fake.refusedNames.has(name))) {
      return refuse(400, 'BadParameter', `The request URI contains an invalid name: ${name} (${request.text})`)
    }
    if (busy?.name === name.toLowerCase() && busy.left-- > 0) {
      return refuse(409, 'Conflict', `Secret ${name} is currently busy; retry later.`, busy.code)
    }
    return handle(request, name)
  }

  /** Discovery document that the login library reads before it requests a token. */
  function describeLogin({ headers }: FakeRequest): FakeAnswer {
    const base = `https://${headers.host}/${azureCredential.tenantId}`
    return {
      status: 200,
      body: {
        issuer: `${base}/v2.0`,
        authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
        token_endpoint: `${base}/oauth2/v2.0/token`,
        jwks_uri: `${base}/discovery/v2.0/keys`,
      },
    }
  }

  function logIn({ path, text, headers }: FakeRequest): FakeAnswer {
    const form = Object.fromEntries(new URLSearchParams(text))
    const refuseLogin = (status: number, error: string, code: number) => ({
      status,
      body: { error, error_description: `AADSTS${code}: refused.`, error_codes: [code] },
    })
    if (!headers['content-type']?.startsWith('application/x-www-form-urlencoded'))
      violations.push('login: content type')
    if (!path.startsWith(`/${azureCredential.tenantId}/`)) return refuseLogin(400, 'invalid_request', 90002)
    if (form.client_id !== azureCredential.clientId) return refuseLogin(400, 'unauthorized_client', 700016)
    if (form.client_secret !== azureCredential.clientSecret) return refuseLogin(401, 'invalid_client', 7000215)
    if (form.grant_type !== 'client_credentials') violations.push('login: grant_type')
    if (!form.scope?.split(' ').includes('https://vault.azure.net/.default')) violations.push('login: scope')
    return {
      status: 200,
      body: { token_type: 'Bearer', expires_in: 3_599, ext_expires_in: 3_599, access_token: token },
    }
  }

  type Handle = (request: FakeRequest, name: string) => FakeAnswer
  const find = (name: string, isDeleted?: true) => {
    const secret = secrets.get(name.toLowerCase())
    return secret?.isDeleted === isDeleted ? secret : undefined
  }

  function set(request: FakeRequest, name: string): FakeAnswer {
    const {
      value,
      tags = {},
      contentType,
      ...others
    } = request.json as Record<string, unknown> & { tags?: Record<string, string> }
    const strange = Object.keys(others).filter((key) => key !== 'attributes')
    if (typeof value !== 'string' || strange.length > 0) {
      violations.push(`set: ${strange.join(', ') || 'no value'}`)
      return refuse(400, 'BadParameter', 'The parameter is incorrect.')
    }
    if (Buffer.byteLength(value) > 25_600) return refuse(400, 'BadParameter', `The value is too long: ${value}`)
    if (
      Object.entries(tags).length > 15 ||
      Object.entries(tags)
        .flat()
        .some((word) => word.length > 256)
    ) {
      return refuse(400, 'BadParameter', 'The tags are too many or too long.')
    }
    if (find(name, true)) {
      const message = `Secret ${name} is currently in a deleted but recoverable state, and its name cannot be reused.`
      return refuse(409, 'Conflict', message, 'ObjectIsDeletedButRecoverable')
    }
    const known = find(name)
    if (known?.managed) return refuse(403, 'Forbidden', 'The secret is managed by the key vault.')
    const versions = [...(known?.versions ?? []), value]
    const secret: Secret = { name: known?.name ?? name, versions, updated: ++seconds, tags }
    if (typeof contentType === 'string') secret.contentType = contentType
    secrets.set(name.toLowerCase(), secret)
    return { status: 200, body: { value, ...shown(secret, idOf(secret)) } }
  }

  const operations: Record<string, Handle> = {
    'GET secrets': ({ query }) => {
      const asked = Number(query.get('maxresults') ?? 25)
      if (asked < 1 || asked > 25) return refuse(400, 'BadParameter', 'maxresults must be 1 to 25.')
      const from = Number(query.get('$skiptoken') ?? 0)
      const size = Math.min(asked, fake.pageSize ?? 25)
      const all = [...secrets.values()].filter(({ isDeleted }) => !isDeleted)
      const value = all
        .slice(from, from + size)
        .map((secret) => shown(secret, `https://${vault}/secrets/${secret.name}`))
      const more = `${fake.nextPageOrigin}/secrets?api-version=${query.get('api-version')}&$skiptoken=${from + size}&maxresults=${asked}`
      return { status: 200, body: { value, nextLink: from + size < all.length ? more : null } }
    },
    'PUT secrets/name': set,
    'GET secrets/name': (_request, name) => {
      const secret = find(name)
      if (secret === undefined) return missing(name)
      return { status: 200, body: { value: secret.versions.at(-1), ...shown(secret, idOf(secret)) } }
    },
    'DELETE secrets/name': (_request, name) => {
      const secret = find(name)
      if (secret === undefined) return missing(name)
      secret.isDeleted = true
      busy = { name: name.toLowerCase(), left: fake.lag, code: 'ObjectIsBeingDeleted' }
      return { status: 200, body: deleted(secret) }
    },
    'GET deletedsecrets/name': (_request, name) => {
      const secret = find(name, true)
      return secret === undefined ? missing(name) : { status: 200, body: deleted(secret) }
    },
    'POST deletedsecrets/name/recover': (_request, name) => {
      const secret = find(name, true)
      if (secret === undefined) return missing(name)
      delete secret.isDeleted
      busy = { name: name.toLowerCase(), left: fake.lag, code: 'ObjectIsBeingRecovered' }
      return { status: 200, body: shown(secret, idOf(secret)) }
    },
  }

  const deleted = (secret: Secret) => ({
    recoveryId: `https://${vault}/deletedsecrets/${secret.name}`,
    deletedDate: 1_800_000_000,
    scheduledPurgeDate: 1_807_000_000,
    ...shown(secret, idOf(secret)),
  })

  const fake: FakeKeyVault = {
    /** A deleted vault loses its host name. */
    get hosts() {
      return exists ? [vault, login] : [login]
    },
    credential: azureCredential,
    wrongCredential: { ...azureCredential, clientSecret: 'wrong' },
    target: { vaultUri: `https://${vault}` },
    options: {},
    answer,
    violations,
    state: () =>
      new Map(
        [...secrets.values()]
          .filter(({ isDeleted }) => !isDeleted)
          .map(({ name, versions }) => [name, versions.at(-1) ?? '']),
      ),
    tamper(name, value) {
      const known = secrets.get(name.toLowerCase())
      if (value === undefined) secrets.delete(name.toLowerCase())
      else {
        const versions = [...(known?.versions ?? []), value]
        secrets.set(name.toLowerCase(), { name, tags: {}, ...known, versions, updated: ++seconds })
      }
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 25,
    refusedNames: new Set(),
    calls: { list: (count) => 1 + Math.ceil(count / 25), update: 2, look: 1 },
    secret: (name) => secrets.get(name.toLowerCase()),
    plantCertificate(name) {
      const facts = { contentType: 'application/x-pkcs12', managed: true } as const
      secrets.set(name.toLowerCase(), { name, versions: ['MII…'], updated: ++seconds, tags: {}, ...facts })
    },
    lag: 0,
    nextPageOrigin: `https://${vault}:443`,
  }
  return fake
}
