/** Outbound requests reach public addresses, and private ones only by the allow list: nothing else is connected to. */
import { afterEach, describe, expect, test } from 'vitest'
import { failureOf, listenCanary, listenHttp, openOutbound, outboundWith, stopAll } from '../../test/outbound-server.ts'
import { parseAllowList } from './outbound-allow.ts'

afterEach(stopAll)

describe('addresses that are not public', () => {
  test.each([
    '127.0.0.1',
    '2130706433',
    '0177.0.0.1',
    '017700000001',
    '0x7f.0.0.1',
    '0x7f000001',
    '0x7F.1',
    '127.1',
    '127.0.0.1.',
    '%31%32%37.0.0.1',
    '１２７.０.０.１',
    '127。0。0。1',
    '0.0.0.0',
    '0',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '169.254.169.254',
    'localhost',
    'localhost.',
    'LOCALHOST',
    'private.test',
    'private.test.',
    'mapped.test',
    'mixed.test',
    'mixed-six.test',
    'zone.test',
    'nonsense.test',
  ])('are rejected without a connection: %s', async (host) => {
    const canary = await listenCanary()
    const outbound = outboundWith('', {
      localhost: ['127.0.0.1', '::1'],
      'private.test': ['127.0.0.1'],
      'mapped.test': ['::ffff:127.0.0.1'],
      'mixed.test': ['8.8.8.8', '127.0.0.1'],
      'mixed-six.test': ['2606:4700::1111', '::1'],
      'zone.test': ['fe80::1%lo'],
      'nonsense.test': ['127.1'],
    })
    for (const url of [`https://${host}:${canary.port}/`, `http://${host}:${canary.port}/`, `https://${host}/`]) {
      const error = await failureOf(outbound.request({ url }))
      expect([error.kind, error.message]).toEqual(['refused', expect.stringContaining('private or reserved address')])
    }
    expect(canary.connections()).toBe(0)
  })

  test('are rejected with the system resolver too, and the canary counts connections', async () => {
    const canary = await listenCanary()
    const outbound = openOutbound({ allow: parseAllowList('') })
    expect((await failureOf(outbound.request({ url: `https://localhost:${canary.port}/` }))).kind).toBe('refused')
    expect(canary.connections()).toBe(0)

    const trusted = outbound.request({ url: `http://127.0.0.1:${canary.port}/`, reach: 'operator' })
    expect((await failureOf(trusted)).kind).toBe('connection')
    expect(canary.connections()).toBe(1)
  })

  test('are not reached by DNS rebinding: a name is resolved once', async () => {
    const server = await listenHttp((request, response) => response.end(request.socket.localAddress), '0.0.0.0')
    let lookups = 0
    const outbound = openOutbound({
      allow: parseAllowList('127.0.0.2'),
      resolve: async () => {
        lookups += 1
        return [{ address: lookups === 1 ? '127.0.0.2' : '127.0.0.1', family: 4 }]
      },
    })
    const response = await outbound.request({ url: `http://rebind.test:${server.port}/` })
    expect([response.body.toString(), lookups, server.connections()]).toEqual(['127.0.0.2', 1, 1])
  })
})

describe('the rules for public addresses', () => {
  test.each([
    ['http://public.test/', 'only https'],
    ['http://public.test:443/', 'only https'],
    ['https://public.test:80/', 'only port 443'],
    ['https://public.test:8443/', 'only port 443'],
    ['https://8.8.8.8:22/', 'only port 443'],
    ['https://[::ffff:8.8.8.8]:22/', 'only port 443'],
  ])('reject %s', async (url, reason) => {
    const error = await failureOf(outboundWith('', { 'public.test': ['8.8.8.8'] }).request({ url, timeoutMs: 500 }))
    expect([error.kind, error.message]).toEqual(['refused', expect.stringContaining(reason)])
  })

  test.each([
    'not a url',
    '/relative',
    'https://',
    'https://user@public.test/',
    'https://:password@public.test/',
    'https://public.test../',
    'ftp://public.test/',
    'file:///etc/passwd',
    'data:,x',
    'https://[fe80::1%25eth0]/',
    'https://256.256.256.256/',
  ])('report %s as a bad URL', async (url) => {
    const error = await failureOf(outboundWith('', { 'public.test': ['8.8.8.8'] }).request({ url, reach: 'operator' }))
    expect([error.kind, error.message]).toEqual(['bad_url', expect.not.stringContaining('password@')])
  })

  test('report that a name cannot be resolved', async () => {
    const error = await failureOf(outboundWith('').request({ url: 'https://nowhere.test/' }))
    expect([error.kind, error.message]).toEqual(['connection', 'nowhere.test could not be resolved.'])
  })
})

describe('the allow list', () => {
  const names = { 'inside.test': ['127.0.0.1'], 'other.test': ['127.0.0.1'], 'half.test': ['127.0.0.1', '127.0.1.1'] }

  test.each([
    ['inside.test', 'inside.test', true],
    ['INSIDE.test.', 'inside.test.', true],
    ['inside.test', 'other.test', false],
    ['inside.test', 'sub.inside.test', false],
    ['inside.test', '127.0.0.1', false],
    ['127.0.0.1', '127.0.0.1', true],
    ['127.0.0.1', '[::ffff:127.0.0.1]', true],
    ['127.0.0.0/24', 'other.test', true],
    ['127.0.0.0/24', 'half.test', false],
    ['127.0.0.0/16, 10.0.0.0/8', 'half.test', true],
    ['10.0.0.0/8 ::/0', '127.0.0.1', false],
    ['127.0.0.2/31', '127.0.0.1', false],
    ['0.0.0.0/0', '127.0.0.1', true],
  ])('with "%s", %s is reached: %s', async (allow, host, isReached) => {
    const server = await listenHttp((_, response) => response.end('ok'))
    const allNames = { ...names, 'sub.inside.test': ['127.0.0.1'] }
    const result = outboundWith(allow, allNames).request({ url: `http://${host}:${server.port}/` })
    if (isReached) expect((await result).body.toString()).toBe('ok')
    else expect((await failureOf(result)).kind).toBe('refused')
    expect(server.connections()).toBe(isReached ? 1 : 0)
  })

  test.each([
    ['0.0.0.0/0 ::/0', 'https://169.254.169.254/'],
    ['169.254.0.0/16', 'http://169.254.169.254/'],
    ['fc00::/7', 'http://[fd00:ec2::254]/'],
    ['inside.test', 'http://inside.test/'],
  ])('with "%s" still blocks the cloud metadata service at %s', async (allow, url) => {
    const outbound = outboundWith(allow, { 'inside.test': ['169.254.169.254'] })
    expect((await failureOf(outbound.request({ url, timeoutMs: 500 }))).kind).toBe('refused')
  })

  test.each([
    '*.test',
    'http://inside.test',
    'inside.test:80',
    'user@inside.test',
    '10.0.0.1/8',
    '10.0.0/8',
    '0177.0.0.1',
    '2130706433',
    '0x7f000001',
    '10.0.0.0/33',
    '[::1]',
    '-inside.test',
    'in..test',
  ])('rejects the entry %s by name', (entry) => {
    expect(() => parseAllowList(`10.0.0.0/8,${entry}`)).toThrow(`"${entry}" is not a host name`)
  })

  test('may be empty, and accepts commas, spaces and line breaks', () => {
    expect(parseAllowList('  ')).toEqual({ hosts: new Set(), ranges: [] })
    const list = parseAllowList('a.test, B.test.\n10.0.0.0/8 ::1,bücher.test')
    expect([[...list.hosts], list.ranges.length]).toEqual([['a.test', 'b.test', 'xn--bcher-kva.test'], 2])
  })
})
