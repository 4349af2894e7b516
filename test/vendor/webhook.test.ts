import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import type { Op } from '../../server/src/providers/provider.ts'
import { webhook } from '../../server/src/providers/webhook.ts'
import { describeProvider } from './conformance.ts'
import { fakeReceiver } from './fake/webhook.ts'
import { startFake } from './fake.ts'
import { applyAll, connectionTo, create, remove, update } from './operation.ts'

describeProvider(webhook, fakeReceiver, { names: ['ALPHA', 'BETA', 'GAMMA'] })

test('the fake accepts messages signed by the reference library, and rejects altered or old ones', async () => {
  const theirs = await startFake(fakeReceiver(), { plain: true })
  const { secret = '' } = theirs.fake.credential
  const library = new Webhook(secret)
  const body = JSON.stringify({
    type: 'sync.push',
    syncId: '0199a000-0000-7000-8000-000000000001',
    upserted: [{ name: 'ALPHA', value: 'one' }],
    deleted: [],
  })
  const send = async (at: Date, sent: string, signed = body) => {
    const headers = {
      'content-type': 'application/json',
      'webhook-id': `msg_${at.getTime()}_${sent.length}`,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': library.sign(`msg_${at.getTime()}_${sent.length}`, at, signed),
    }
    return (await fetch(`${theirs.url}/coffer`, { method: 'POST', headers, body: sent })).status
  }
  const now = Date.now()
  expect(await send(new Date(now), body)).toBe(200)
  expect(await send(new Date(now), `${body} `)).toBe(401)
  expect(await send(new Date(now - 10 * 60_000), body)).toBe(401)
  expect(await send(new Date(now + 10 * 60_000), body)).toBe(401)
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'one']]))
  await theirs.close()
})

test('our signature equals that of the reference library', async () => {
  const running = await startFake(fakeReceiver())
  const connection = connectionTo(running)
  await applyAll(webhook, connection, [create('ALPHA', 'üñî ✓ 🔑\r\n'), remove({ name: 'BETA' })])
  const [request] = running.requests
  const at = new Date(Number(request?.headers['webhook-timestamp']) * 1_000)
  const id = request?.headers['webhook-id'] ?? ''
  const library = new Webhook(connection.credential.secret ?? '')
  expect(request?.headers['webhook-signature']).toBe(library.sign(id, at, request?.text ?? ''))
  expect(library.verify(request?.text ?? '', { ...request?.headers })).toEqual({
    type: 'sync.push',
    syncId: connection.syncId,
    upserted: [{ name: 'ALPHA', value: 'üñî ✓ 🔑\r\n' }],
    deleted: ['BETA'],
  })
  await running.close()
})

test('a deeply nested error body is handled like any other rejection', async () => {
  const running = await startFake(fakeReceiver())
  const body = `{"message":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 400, body } })
  await expect(webhook.verify(connectionTo(running))).rejects.toMatchObject({ kind: 'invalid', facts: { status: 400 } })
  await running.close()
})

test('with names only, no value is sent, and names only is the default', async () => {
  for (const options of [{ content: 'names' }, {}]) {
    const fake = fakeReceiver()
    const running = await startFake(fake)
    const ops = [create('ALPHA', 'canary-value'), update('BETA', 'canary-value'), remove({ name: 'GAMMA' })]
    await applyAll(webhook, connectionTo(running, { options }), ops)
    expect(running.requests.map(({ text }) => text).join()).not.toContain('canary')
    expect(fake.messages).toMatchObject([{ upserted: [{ name: 'ALPHA' }, { name: 'BETA' }], deleted: ['GAMMA'] }])
    await running.close()
  }
})

test('creates, updates and deletes go in one message, and every run uses new ids', async () => {
  const fake = fakeReceiver()
  const running = await startFake(fake)
  const ops = [create('ALPHA', 'one'), remove({ name: 'BETA' })]
  await applyAll(webhook, connectionTo(running), ops)
  await applyAll(webhook, connectionTo(running), ops)
  expect(running.requests.length).toBe(2)
  expect(fake.ids.size).toBe(2)
  expect(fake.violations).toEqual([])
  await running.close()
})

test('a retry within a run reuses the message id, and any other message gets a new one', async () => {
  const fake = fakeReceiver()
  const running = await startFake(fake)
  let time = Date.now()
  const { apply } = webhook.connect(connectionTo(running, { now: () => time }))
  const ops = [create('ALPHA', 'one'), remove({ name: 'BETA' })]
  const id = async (part: readonly Op[]) => {
    await Array.fromAsync(apply(part))
    time += 2_000
    return running.requests.at(-1)?.headers['webhook-id']
  }
  const first = await id(ops)
  expect(first).toMatch(/^msg_[0-9a-f]{32}$/)
  expect(await id(ops)).toBe(first)
  expect(await id(ops.slice(0, 1))).not.toBe(first)
  expect(running.requests.map(({ headers }) => headers['webhook-timestamp'])).toHaveLength(3)
  expect(fake.messages).toHaveLength(2)
  expect(fake.violations).toEqual([])
  await running.close()
})

test.each([
  ['url', 'https://user:secret@hooks.example.com/'],
  ['url', 'https://hooks.example.com/#part'],
  ['url', 'ftp://hooks.example.com/'],
  ['url', 'hooks.example.com'],
  ['url', ''],
  ['secret', 'whsec_'],
  ['secret', 'whsec_c2hvcnQ='],
  ['secret', `whsec_${Buffer.alloc(65).toString('base64')}`],
  ['secret', `whsec_${Buffer.alloc(32).toString('base64')}!`],
  ['secret', Buffer.alloc(32).toString('base64')],
])('%s rejects %s', (id, value) => {
  const field = webhook.auth.find((one) => one.id === id)
  if (field === undefined || field.kind === 'copy') throw new Error('no such field')
  expect(field.check?.(value, {})).toMatch(/^must /)
})

test('neither the label nor the fingerprint reveals the URL, and equal URLs have equal fingerprints', () => {
  const describe = (url: string) => webhook.describeTarget({}, { url })
  const one = describe('https://hooks.example.com/services/token-in-the-path?key=token-in-the-query')
  expect(one.label).toBe('hooks.example.com')
  expect(JSON.stringify(one)).not.toContain('token')
  expect(describe('https://HOOKS.example.com:443/services/token-in-the-path?key=token-in-the-query')).toEqual(one)
  expect(describe('https://hooks.example.com/services/other').fingerprint).not.toBe(one.fingerprint)
})

test('the example matches a sent message', async () => {
  const example = webhook.options.find(({ id }) => id === 'example')
  if (example?.kind !== 'copy') throw new Error('no example')
  for (const content of ['names', 'values']) {
    const fake = fakeReceiver()
    const running = await startFake(fake)
    const connection = connectionTo(running, { options: { content } })
    await applyAll(webhook, connection, [create('API_KEY', 'the value'), remove({ name: 'OLD_KEY' })])
    const text = example.text({
      syncId: connection.syncId,
      values: { content },
      target: {},
      mapping: {},
      takesOver: false,
    })
    expect(JSON.parse(text)).toEqual(fake.messages[0])
    await running.close()
  }
})
