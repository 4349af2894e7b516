/** Variables of a Cloudflare Pages project; driven by the cloudflare client in cloudflare-pages.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { accountId, answerCommon, fine, refuse, userToken } from './cloudflare-envelope.ts'

const name = 'shop'
type Variable = { type: 'secret_text' | 'plain_text'; value: string }
type Config = { readonly env_vars: Map<string, Variable>; wrangler_config_hash: string | undefined }

type FakeCloudflarePages = Fake & { readonly configs: Record<'production' | 'preview', Config> }

export function fakeCloudflarePages(): FakeCloudflarePages {
  const configs = {
    production: { env_vars: new Map<string, Variable>(), wrangler_config_hash: 'aaaa' as string | undefined },
    preview: { env_vars: new Map<string, Variable>(), wrangler_config_hash: undefined as string | undefined },
  }
  const violations: string[] = []
  const projects = `/client/v4/accounts/${accountId}/pages/projects`
  let exists = true

  function answer(request: FakeRequest): FakeAnswer {
    const common = answerCommon(request)
    if (common) return common
    const { method, path } = request
    if (method === 'GET' && path === projects) return listProjects(request)
    if (path !== `${projects}/${name}` || !exists) return refuse(404, 8000007, 'Project not found.')
    if (method === 'GET') return fine(shown())
    if (method === 'PATCH') return patch(request)
    violations.push(`${method} ${path}`)
    return refuse(405, 10405, 'Method not allowed')
  }

  function listProjects({ query }: FakeRequest): FakeAnswer {
    const asked = Number(query.get('per_page') ?? 10)
    if (asked > 10) {
      violations.push(`per_page ${asked}`)
      return refuse(400, 8000024, 'Invalid list options provided. Review the `page` or `per_page` parameter.')
    }
    const names = exists ? [...Array.from({ length: 11 }, (_, index) => `other-${index}`), name] : []
    const page = Number(query.get('page') ?? 1)
    const result = names.slice((page - 1) * asked, page * asked).map((one) => ({ id: one, name: one }))
    const total_pages = Math.ceil(names.length / asked)
    return fine(result, { result_info: { page, per_page: asked, count: result.length, total_pages } })
  }

  /** Hides secret values. */
  function shown() {
    const variables = ({ env_vars, wrangler_config_hash }: Config) => ({
      env_vars: Object.fromEntries(
        [...env_vars].map(([key, { type, value }]) => [key, { type, value: type === 'secret_text' ? '' : value }]),
      ),
      fail_open: true,
      ...(wrangler_config_hash !== undefined && { wrangler_config_hash }),
    })
    const deployment_configs = { production: variables(configs.production), preview: variables(configs.preview) }
    return { id: name, name, deployment_configs }
  }

  type Change = { env_vars?: Record<string, Variable | null>; wrangler_config_hash?: string }

  /** Deep merge. A patch that omits the configuration hash, which a deployment computed, removes it. */
  function patch({ json }: FakeRequest): FakeAnswer {
    const body = json as { deployment_configs?: Record<string, Change> }
    if (Object.keys(body).some((key) => key !== 'deployment_configs')) violations.push('unknown fields')
    const changes = Object.entries(body.deployment_configs ?? {}) as ['production' | 'preview', Change][]
    for (const [environment, { env_vars = {}, ...rest }] of changes) {
      if (configs[environment] === undefined) violations.push(`${environment} is no environment`)
      if (Object.keys(rest).some((key) => key !== 'wrangler_config_hash')) violations.push('unknown settings')
      for (const [key, variable] of Object.entries(env_vars)) {
        if (variable === null) continue
        const isForm = ['secret_text', 'plain_text'].includes(variable.type) && typeof variable.value === 'string'
        if (!isForm || Object.keys(variable).length !== 2) violations.push(`${key}: no variable`)
        if (fake.refusedNames.has(key)) return refuse(400, 8000022, `${key} is invalid, its value is ${variable.value}`)
      }
    }
    for (const [environment, { env_vars = {}, wrangler_config_hash }] of changes) {
      const config = configs[environment]
      for (const [key, variable] of Object.entries(env_vars)) {
        if (variable === null) config.env_vars.delete(key)
        else config.env_vars.set(key, variable)
      }
      config.wrangler_config_hash = wrangler_config_hash
    }
    return fine(shown())
  }

  const fake: FakeCloudflarePages = {
    hosts: ['api.cloudflare.com'],
    credential: { token: userToken, accountId },
    wrongCredential: { token: 'cfut_wrong', accountId },
    target: { project: name, environment: 'production' },
    options: {},
    answer,
    violations,
    state: () => new Map([...configs.production.env_vars].map(([key, { value }]) => [key, value])),
    tamper: (key, value) =>
      void (value === undefined
        ? configs.production.env_vars.delete(key)
        : configs.production.env_vars.set(key, { type: 'plain_text', value })),
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    // A single update must first read the hash that it has to repeat; a run has it from the list.
    calls: { list: () => 1, update: 2, look: 0 },
    configs,
  }
  return fake
}
