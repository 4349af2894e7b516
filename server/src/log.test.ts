import { afterEach, expect, test, vi } from 'vitest'
import { createLog, type Log, type LogFields, type logLevels, traceOf } from './log.ts'

function collect(level: (typeof logLevels)[number] = 'debug'): { log: Log; lines: string[] } {
  const lines: string[] = []
  return { log: createLog(level, { write: (line) => void lines.push(line) }), lines }
}

afterEach(() => vi.restoreAllMocks())

const secret = 'hunter2-do-not-log'

test('a line is one JSON object with time, level, message and the declared fields', () => {
  const { log, lines } = collect()
  log.warn('something', { requestId: 'r-1', route: '/v1/me', status: 503, ms: 1.25 })
  expect(lines).toHaveLength(1)
  expect(lines[0]?.endsWith('\n')).toBe(true)
  const line: Record<string, unknown> = JSON.parse(lines[0] ?? '')
  expect(line).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    msg: 'something',
    requestId: 'r-1',
    route: '/v1/me',
    status: 503,
    ms: 1.25,
  })
})

test.each([
  ['a request body', { body: { value: secret } }],
  ['headers', { headers: { authorization: secret } }],
  ['a query', { query: secret, url: `/v1?x=${secret}` }],
  ['an error', { err: new Error(secret), error: new Error(secret) }],
  ['a message', { msg: secret, message: secret }],
  ['the name of the machine', { hostname: secret, pid: secret }],
  ['a name from the prototype', JSON.parse(`{"__proto__":{"route":"${secret}"},"constructor":"${secret}"}`)],
])('%s in undeclared fields is never logged', (_what, fields) => {
  const { log, lines } = collect()
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    // The type forbids such fields, but a cast or a spread in a caller could still pass them.
    log[level]('an event', fields as LogFields)
  }
  expect(lines).toHaveLength(4)
  expect(lines.join('')).not.toContain(secret)
  for (const line of lines) expect(Object.keys(JSON.parse(line)).sort()).toEqual(['level', 'msg', 'time'])
})

test('an undefined field is omitted; 0 and the empty string are kept', () => {
  const { log, lines } = collect()
  const missing: Partial<Record<'code', string>> = {}
  log.info('an event', { ...missing, count: 0, route: '' })
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ count: 0, route: '' })
  expect(lines[0]).not.toContain('code')
})

test('text with line breaks stays on one line', () => {
  const { log, lines } = collect()
  log.info('first\n{"level":"error","msg":"forged"}', { route: 'a\r\nb\u2028c\u001b[31m' })
  expect(lines).toHaveLength(1)
  for (const control of ['\n', '\r', '\u001b']) expect(lines[0]?.trimEnd()).not.toContain(control)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ route: 'a\r\nb\u2028c\u001b[31m' })
})

test.each([
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
  ['silent', []],
] as const)('at level %s, only messages of that severity or higher are written', (level, expected) => {
  const { log, lines } = collect(level)
  for (const severity of ['debug', 'info', 'warn', 'error'] as const) log[severity](severity)
  expect(lines.map((line) => JSON.parse(line).level)).toEqual(expected)
  expect(log.isDebug).toBe(level === 'debug')
})

test('on a terminal, a line is human-readable', () => {
  const written: string[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written.push(String(text))
    return true
  })
  const before = process.stdout.isTTY
  try {
    process.stdout.isTTY = true
    createLog('info').info('listening', { host: '127.0.0.1', port: 8080 })
  } finally {
    process.stdout.isTTY = before
  }
  expect(written.join('')).toMatch(/^\d\d:\d\d:\d\d\.\d{3} info {2}listening host=127\.0\.0\.1 port=8080\n$/)
})

class LibraryError extends Error {
  readonly code: string
  readonly detail = secret
  readonly query = `select '${secret}'`

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LibraryError'
    this.code = '23505'
  }
}

function parseError(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    return error
  }
}

test.each<[string, unknown]>([
  ['one line', new LibraryError(`duplicate key: ${secret}`)],
  ['several lines', new LibraryError(`bad input:\n${secret}\n  ${secret}`)],
  ['lines that look like a stack', new LibraryError(`bad input:\n    at ${secret}\nat ${secret}`)],
  [
    'lines that look like a stack frame with a file',
    new LibraryError(`x\n    at ${secret} (file:///a/${secret}.ts:1:2)`),
  ],
  ['the input of JSON.parse', parseError(`{"a":\nat ${secret}`)],
  ['a cause', new Error('outer', { cause: new LibraryError(secret) })],
  ['a thrown string', secret],
  ['a thrown object', { message: secret, stack: `at ${secret}` }],
  ['an error without a stack', Object.assign(new Error(secret), { stack: undefined })],
  ['several errors', new AggregateError([new Error(secret)], secret)],
])('the trace of an error never contains its message: %s', (_what, error) => {
  const { log, lines } = collect()
  log.error('a request failed', traceOf(error))
  expect(lines.join('')).not.toContain(secret)
})

test('the trace of an error has its name, its code, its cause and its stack', () => {
  const trace = traceOf(new LibraryError('outer', { cause: new LibraryError('inner') }))
  expect(trace.errorName).toBe('LibraryError')
  expect(trace.code).toBe('23505 < LibraryError < 23505')
  expect(trace.stack).toContain('log.test.ts')
  expect(String(trace.stack).split('\n').length).toBeLessThanOrEqual(6)
  for (const frame of String(trace.stack).split('\n')) expect(frame).toMatch(/^\s+at /)
})

test('the trace of a SQLite error has its result code, which identifies a full disk', () => {
  const full = Object.assign(new Error('x'), { code: 'ERR_SQLITE_ERROR', errcode: 13 })
  expect(traceOf(full).code).toBe('ERR_SQLITE_ERROR 13')
  expect(traceOf(new Error('outer', { cause: full })).code).toBe('Error < ERR_SQLITE_ERROR 13')
})

test.each<[string, unknown, string]>([
  ['a string', 'x', 'string'],
  ['undefined', undefined, 'undefined'],
  ['null', null, 'object'],
])('the trace of a thrown %s names its type', (_what, thrown, errorName) => {
  expect(traceOf(thrown)).toEqual({ errorName })
})

test('an error that is its own cause has a trace', () => {
  const error = new Error('round')
  error.cause = error
  expect(traceOf(error)).toMatchObject({ errorName: 'Error' })
  const [first, second] = [new Error('first'), new Error('second')]
  first.cause = second
  second.cause = first
  expect(traceOf(first)).toMatchObject({ errorName: 'Error' })
})
