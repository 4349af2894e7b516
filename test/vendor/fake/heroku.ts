/** Heroku's config vars; driven by heroku-client in heroku.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

const app = 'shop-production'
const token = 'HRKU-00000000-fake'

export function fakeHeroku(): Fake {
  const vars = new Map<string, string>()
  const violations: string[] = []
  let exists = true

  function answer(request: FakeRequest): FakeAnswer {
    if (!/^application\/vnd\.heroku\+json; version=3$/.test(request.headers.accept ?? '')) {
      violations.push(`${request.method} ${request.path}: no version in Accept`)
    }
    // heroku-client sends the token as a Basic password without a user, which the vendor accepts too.
    const accepted = [`Bearer ${token}`, `Basic ${Buffer.from(`:${token}`).toString('base64')}`]
    if (!accepted.includes(request.headers.authorization ?? '')) {
      return { status: 401, body: { id: 'unauthorized', message: 'Invalid credentials provided.' } }
    }
    if (request.method === 'GET' && request.path === '/account')
      return { status: 200, body: { email: 'ops@example.com' } }
    if (request.method === 'GET' && request.path === '/apps') return listApps(request)
    if (request.path === `/apps/${app}/config-vars` && exists) return configVars(request)
    return { status: 404, body: { id: 'not_found', message: "Couldn't find that app." } }
  }

  /** Two apps; with small pages, Next-Range leads to the second. */
  function listApps(request: FakeRequest): FakeAnswer {
    const names = exists ? [app, 'shop-staging'] : ['shop-staging']
    const size = fake.pageSize ?? 1_000
    const start = /^name \](.+)\.\./.exec(request.headers.range ?? '')?.[1]
    const from = start === undefined ? 0 : names.indexOf(start) + 1
    const page = names.slice(from, from + size)
    const isLast = from + size >= names.length
    const headers = isLast ? {} : { 'next-range': `name ]${page.at(-1)}..; max=${size}` }
    return { status: isLast ? 200 : 206, headers, body: page.map((name) => ({ id: name, name })) }
  }

  function configVars({ method, json }: FakeRequest): FakeAnswer {
    if (method === 'PATCH') {
      const changes = Object.entries(json as Record<string, unknown>)
      for (const [name, value] of changes) {
        if (fake.refusedNames.has(name)) {
          return {
            status: 422,
            body: { id: 'invalid_params', message: `${name} is not a valid name; its value is ${value}` },
          }
        }
        if (value !== null && typeof value !== 'string') violations.push(`${name}: neither text nor null`)
      }
      for (const [name, value] of changes) {
        if (value === null) vars.delete(name)
        else vars.set(name, String(value))
      }
    } else if (method !== 'GET') violations.push(`${method} on config-vars`)
    return { status: 200, body: Object.fromEntries(vars) }
  }

  const fake: Fake = {
    hosts: ['api.heroku.com'],
    credential: { token },
    wrongCredential: { token: 'HRKU-wrong' },
    target: { app },
    options: {},
    answer,
    violations,
    state: () => new Map(vars),
    tamper: (name, value) => void (value === undefined ? vars.delete(name) : vars.set(name, value)),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 1, look: 1 },
  }
  return fake
}
