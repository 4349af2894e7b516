/** Health is public. Metrics need their token, count requests by route, and contain nothing of the requests. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  createTeam,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'

let service: TestService
let owner: TestUser

const metricsToken = 'a-token-for-metrics'

beforeAll(async () => {
  service = await startService({ COFFER_METRICS_TOKEN: metricsToken })
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

describe('health', () => {
  test.each([
    ['/healthz', { status: 'ok' }],
    ['/readyz', { status: 'ready' }],
  ])('%s needs no credential and is not rate-limited', async (path, body) => {
    const answer = await service.call('GET', path)
    expect(answer).toMatchObject({ status: 200, body })
    expect(answer.headers.has('ratelimit-limit')).toBe(false)
  })
})

describe('/metrics', () => {
  const read = (authorization?: string) =>
    service.call<string>('GET', '/metrics', authorization === undefined ? {} : { headers: { authorization } })

  test.each([
    [
      'is off by default and says how to turn it on',
      {},
      'Metrics are off: set COFFER_METRICS_TOKEN or COFFER_METRICS_PORT.',
    ],
    [
      'on a separate port is not found here and says so',
      { COFFER_METRICS_PORT: '9464' },
      'Metrics are on a separate port: see COFFER_METRICS_PORT.',
    ],
  ])('%s', async (_what, settings, message) => {
    const without = await startService(settings)
    try {
      const answer = await without.call('GET', '/metrics', { token: metricsToken })
      expect(answer).toMatchObject({ status: 404, body: { message } })
    } finally {
      await without.stop()
    }
  })

  test('is refused without its token', async () => {
    const wrong = [undefined, '', 'Bearer', 'Bearer ', `Bearer ${metricsToken}x`, metricsToken, 'Basic x', 'Bearer é']
    // The same length as the right token, with another last character.
    wrong.push(`Bearer ${metricsToken.slice(0, -1)}x`)
    for (const authorization of [...wrong, `Bearer ${owner.session}`]) {
      expect((await read(authorization)).status, authorization).toBe(401)
    }
  })

  test('counts requests by route, and contains nothing of the requests', async () => {
    const teamId = await createTeam(service, owner.session, 'Counted Team')
    const project = await createProject(service, owner.session, 'counted-project')
    const { token, id } = await createToken(service, owner.session)
    const as = { token: owner.session }
    await service.call('PUT', `/v1/workspace/main/team/${teamId}`, { ...as, body: { name: 'Renamed Team' } })
    await service.call('GET', `/v1/workspace/main/project/${project.slug}/environment?q=query-text`, { token })
    await service.call('GET', '/v1/never/heard-of', as)
    await service.call('GET', '/v1/%zz', as)
    await service.call('DELETE', `/v1/workspace/main/tokens/${id}`, as)

    const { status, headers, text } = await read(`Bearer ${metricsToken}`)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const counted = (method: string, route: string, code: number) =>
      `coffer_http_requests_total{method="${method}",route="${route}",status="${code}"} 1`
    const lines = text.split('\n')
    expect(lines).toContain(counted('PUT', '/v1/workspace/:ws/team/:id', 200))
    expect(lines).toContain(counted('GET', '/v1/workspace/:ws/project/:prj/environment', 200))
    expect(lines).toContain(counted('DELETE', '/v1/workspace/:ws/tokens/:id', 200))
    const secrets = [
      teamId,
      id,
      token,
      owner.id,
      owner.email,
      owner.session,
      'counted-project',
      'heard-of',
      'query-text',
    ]
    for (const secret of [...secrets, 'Renamed', '%zz', 'main/']) expect(text).not.toContain(secret)
  })

  test('is well-formed: every line is a sample or a comment, and every histogram adds up', async () => {
    const { text } = await read(`Bearer ${metricsToken}`)
    const lines = text.split('\n').filter(Boolean)
    const label = '[a-zA-Z_]\\w*="(?:[^"\\\\\\n]|\\\\.)*"'
    const sample = new RegExp(`^([a-zA-Z_:][\\w:]*)(\\{${label}(?:,${label})*,?\\})? (\\S+)$`)
    const kinds = new Map<string, string>()
    for (const line of lines) {
      const [, name, kind] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
      if (name && kind) {
        expect(kinds.has(name), line).toBe(false)
        kinds.set(name, kind)
      } else if (!line.startsWith('# HELP ')) {
        expect(line).toMatch(sample)
        expect(sample.exec(line)?.[3]).toMatch(/^(-?[\d.]+(e[+-]?\d+)?|nan|[+-]inf)$/i)
      }
    }
    expect(kinds.get('coffer_http_requests_total')).toBe('counter')
    const countIn = (line = '') => Number(line.split(' ').at(-1))
    const whole = lines.filter((line) => /^coffer_.*_bucket\{le="\+Inf",/.test(line))
    expect(whole.length).toBeGreaterThan(0)
    for (const line of whole) {
      const [, name = '', series = ''] = /^(\w+)_bucket\{le="\+Inf",(.*)\} /.exec(line) ?? []
      expect(lines, line).toContain(`${name}_count{${series}} ${countIn(line)}`)
      const buckets = lines
        .filter((candidate) => candidate.startsWith(`${name}_bucket{le=`) && candidate.includes(`,${series}} `))
        .map(countIn)
      expect(buckets).toHaveLength(12)
      expect(buckets).toEqual(buckets.toSorted((a, b) => a - b))
    }
  })
})
