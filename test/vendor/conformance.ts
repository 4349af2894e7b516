/**
 * The tests that every provider must pass: the guarantees that the sync engine relies on, against the provider's fake
 * over real TLS.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isFault, type VendorFault } from '../../server/src/providers/fault.ts'
import type { Field, OpResult, Provider, RemoteItem, Values } from '../../server/src/providers/provider.ts'
import { type Fake, type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { testGuard } from './guard.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

async function faultOf(work: Promise<unknown>): Promise<VendorFault> {
  const error = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  )
  if (!isFault(error)) throw new Error(`expected a fault, got ${String(error)}`)
  return error
}

/** The first fault in the results, or the fault of the call itself. */
async function faultOfApply(work: Promise<OpResult[]>): Promise<VendorFault> {
  return faultOf(
    work.then((results) => {
      for (const result of results) if ('fault' in result) throw result.fault
    }),
  )
}

/** `names`: three names that the vendor accepts unchanged. `values`: texts that are easily corrupted. */
type Samples = { readonly names: readonly [string, string, string]; readonly values?: readonly string[] }

const fragileValues = [
  'plain',
  '',
  ' spaces around ',
  'line one\nline two\r\n',
  '"quotes" \'single\' \\back',
  '#$%&{}',
  'üñî ✓ 🔑',
]

export function describeProvider(provider: Provider, makeFake: () => Fake, samples: Samples): void {
  const [a, b, c] = samples.names
  const { limits, capabilities } = provider
  const values = (samples.values ?? fragileValues).filter((value) => value !== '' || limits.allowsEmpty)

  describe(`${provider.slug}, against its fake`, () => {
    let running: RunningFake
    let fake: Fake
    beforeEach(async () => {
      fake = makeFake()
      running = await startFake(fake)
    })
    afterEach(async () => {
      await running.close()
      expect(fake.violations).toEqual([])
    })

    const ids = async () =>
      new Map((await listAll(provider, connectionTo(running), [a, b, c])).map((item) => [item.name, item]))
    const known = async (name: string) => (await ids()).get(name) ?? { name }

    test('verify names the account, and a wrong credential is an auth fault', async () => {
      expect(await provider.verify(connectionTo(running))).not.toBe('')
      const fault = await faultOf(provider.verify(connectionTo(running, { credential: fake.wrongCredential })))
      expect(fault.kind).toBe('auth')
    })

    test('every select filled by the vendor offers the data of the fake', async () => {
      for (const field of [...provider.auth, ...provider.target, ...provider.options]) {
        if (field.kind !== 'select' || typeof field.options !== 'function') continue
        if (field.when && !field.when(fake.target)) continue
        const offered = await field.options(
          connectionTo(running, { target: answersBefore(provider.target, field, fake.target) }),
        )
        expect(offered?.map(({ value }) => value)).toContain({ ...fake.target, ...fake.options }[field.id])
      }
    })

    test('the fake’s credential, target and options pass the checks of the forms', () => {
      const forms: [readonly Field[], Values][] = [
        [provider.auth, fake.credential],
        [provider.target, fake.target],
        [provider.options, fake.options],
      ]
      for (const [fields, answers] of forms) {
        for (const field of fields) {
          const value = answers[field.id]
          if (field.kind !== 'copy' && value !== undefined) expect(field.check?.(value, answers)).toBeUndefined()
        }
        expect(Object.keys(answers).filter((id) => !fields.some((field) => field.id === id))).toEqual([])
      }
    })

    test('values are stored unchanged', async () => {
      for (const value of values) {
        if (limits.refuseValue?.(value, fake.options) !== undefined) continue
        const item = (await ids()).get(a)
        await applyAll(provider, connectionTo(running), [item ? update(a, value, item.id) : create(a, value)])
        expect(fake.state().get(a)).toBe(value)
      }
    })

    test('creates, updates and deletes only the requested entries', async () => {
      fake.tamper(c, 'foreign')
      await applyAll(provider, connectionTo(running), [create(a, 'one'), create(b, 'two')])
      expect(fake.state()).toEqual(
        new Map([
          [a, 'one'],
          [b, 'two'],
          [c, 'foreign'],
        ]),
      )
      await applyAll(provider, connectionTo(running), [update(a, 'three', (await known(a)).id)])
      await applyAll(provider, connectionTo(running), [remove(await known(b))])
      expect(fake.state()).toEqual(
        new Map([
          [a, 'three'],
          [c, 'foreign'],
        ]),
      )
      const items = await ids()
      if (capabilities.read === 'nothing') return expect(items.size).toBe(0)
      expect([...items.keys()].sort()).toEqual([a, c].sort())
      if (capabilities.read === 'value') expect(items.get(a)?.value).toBe('three')
      if (capabilities.ownerMark !== undefined) {
        expect(items.get(a)?.isOurs).toBe(true)
        expect(items.get(c)?.isOurs).toBe(false)
      } else expect(items.get(a)?.isOurs).toBeUndefined()
    })

    test('a mark changes with the value and only then', async () => {
      if (capabilities.read !== 'mark') return expect(capabilities.read).toMatch(/value|names|nothing/)
      const [result] = await applyAll(provider, connectionTo(running), [create(a, 'one')])
      const first = (await known(a)) as RemoteItem
      expect(first.mark).toBeDefined()
      if (result && 'mark' in result) expect(result.mark).toBe(first.mark)
      expect(((await known(a)) as RemoteItem).mark).toBe(first.mark)
      fake.tamper(a, 'by somebody else')
      expect(((await known(a)) as RemoteItem).mark).not.toBe(first.mark)
    })

    test('operations are idempotent', async () => {
      const ops = [create(a, 'one'), create(b, 'two')]
      await applyAll(provider, connectionTo(running), ops)
      const again = await applyAll(provider, connectionTo(running), [
        update(a, 'one', (await known(a)).id),
        ...ops.slice(1),
      ])
      expect(again.filter((result) => 'fault' in result)).toEqual([])
      expect(fake.state()).toEqual(
        new Map([
          [a, 'one'],
          [b, 'two'],
        ]),
      )
      const gone = await known(b)
      await applyAll(provider, connectionTo(running), [remove(gone)])
      const twice = await applyAll(provider, connectionTo(running), [remove(gone)])
      expect(twice.filter((result) => 'fault' in result)).toEqual([])
      expect(fake.state()).toEqual(new Map([[a, 'one']]))
    })

    test('a create whose response was lost succeeds when repeated', async () => {
      const op = create(a, 'one')
      running.injectFailure = afterWrites(() => ({ kind: 'drop', after: true }))
      expect((await faultOfApply(applyAll(provider, connectionTo(running), [op]))).kind).toBe('transient')
      running.injectFailure = undefined
      await applyAll(provider, connectionTo(running), [op])
      expect(fake.state()).toEqual(new Map([[a, 'one']]))
    })

    test('a list of one item per page is read to the end', async () => {
      const names = Array.from({ length: 5 }, (_, index) => `${a}${index}`)
      await applyAll(
        provider,
        connectionTo(running),
        names.map((name) => create(name, 'x')),
      )
      if (fake.pageSize !== undefined) fake.pageSize = 1
      const items = await listAll(provider, connectionTo(running), names)
      expect(items.map(({ name }) => name).sort()).toEqual(capabilities.read === 'nothing' ? [] : [...names].sort())
    })

    test('lists and updates take the minimum number of calls', async () => {
      const names = Array.from({ length: 30 }, (_, index) => `${a}${index}`)
      await applyAll(
        provider,
        connectionTo(running),
        names.map((name) => create(name, 'x')),
      )
      const items = await listAll(provider, connectionTo(running), names)
      running.forget()
      await listAll(provider, connectionTo(running), names)
      expect(running.requests.length).toBe(fake.calls.list(30))
      running.forget()
      const [first] = items
      await applyAll(provider, connectionTo(running), [update(first?.name ?? `${a}0`, 'y', first?.id)])
      expect(running.requests.length).toBe(fake.calls.update)
    })

    testGuard(provider, a, () => running)

    test.each([
      ['429 with seconds', { status: 429, headers: { 'retry-after': '7' } }, 'rate', 7_000],
      ['429 with a date', { status: 429, headers: { 'retry-after': new Date(60_000).toUTCString() } }, 'rate', 50_000],
      ['429 with a reset', { status: 429, headers: { 'x-ratelimit-reset': '1700000030' } }, 'rate', undefined],
      ['500', { status: 500 }, 'transient', undefined],
      ['503', { status: 503, headers: { 'retry-after': '3' } }, 'transient', 3_000],
      ['401 during a run', { status: 401 }, 'auth', undefined],
      ['an HTML page', { status: 502, body: '<html>' }, 'transient', undefined],
    ] as const)('%s is classified', async (_title, answer, kind, retryAfterMs) => {
      await applyAll(provider, connectionTo(running), [create(b, 'x')])
      const now = () => 10_000
      running.injectFailure = afterWrites(() => ({ kind: 'answer', answer }))
      const fault = await faultOfApply(applyAll(provider, connectionTo(running, { now }), [create(a, 'one')]))
      expect(fault.kind).toBe(kind)
      if (retryAfterMs !== undefined) expect(fault.facts.retryAfterMs).toBe(retryAfterMs)
      expect(fault.message).not.toContain('one')
      expect(fake.state().has(a)).toBe(false)
    })

    test('a deleted target is a gone fault', async () => {
      fake.setTarget(false)
      if (capabilities.read !== 'nothing') {
        expect((await faultOf(listAll(provider, connectionTo(running), [a]))).kind).toBe('gone')
      }
      expect((await faultOfApply(applyAll(provider, connectionTo(running), [create(a, 'one')]))).kind).toBe('gone')
    })

    test('a name rejected by the vendor is a fault of that name only and is not stored', async () => {
      fake.refusedNames.add(a)
      const results = await applyAll(provider, connectionTo(running), [
        create(a, 'canary-value'),
        create(b, 'two'),
      ]).catch((error: unknown) => error)
      if (Array.isArray(results)) {
        const bad = results.find((result: OpResult) => result.name === a)
        expect(bad && 'fault' in bad && isFault(bad.fault) && bad.fault.kind).toMatch(/invalid|conflict|quota/)
        expect(fake.state().get(b)).toBe('two')
      } else expect(isFault(results, 'invalid')).toBe(true)
      expect(fake.state().has(a)).toBe(false)
    })

    test('requests go only to the vendor’s hosts, and no URL contains a value', async () => {
      await applyAll(provider, connectionTo(running), [create(a, 'canary-value')])
      for (const request of running.requests) {
        expect(fake.hosts).toContain(request.host.replace(/:\d+$/, ''))
        expect(request.url).not.toContain('canary')
        // A URL may contain ids of tenants and accounts, but no secret credential.
        for (const { kind, id } of provider.auth) {
          const secret = kind === 'password' ? fake.credential[id] : undefined
          if (secret !== undefined) expect(request.url).not.toContain(secret)
        }
      }
    })
  })
}

/** Affects writes only: logins and reads before them succeed. */
function afterWrites<Result>(answer: (request: FakeRequest) => Result) {
  return (request: FakeRequest): Result | undefined => (isWrite(request) ? answer(request) : undefined)
}

/** Decides by the method, and by the operation for vendors that also read and log in by POST. */
function isWrite({ method, headers, path }: FakeRequest): boolean {
  if (/\.(Get|List|Describe|BatchGet)[A-Za-z]*$/.test(headers['x-amz-target'] ?? '')) return false
  if (/\/(token|login|access_tokens)$/.test(path) || (headers['x-amz-target'] === undefined && path === '/'))
    return false
  return method !== 'GET' && method !== 'HEAD'
}

function answersBefore(fields: readonly Field[], until: Field, answers: Values): Values {
  const before = fields.slice(0, Math.max(0, fields.indexOf(until)))
  return Object.fromEntries(before.flatMap(({ id }) => (answers[id] === undefined ? [] : [[id, answers[id]]])))
}
