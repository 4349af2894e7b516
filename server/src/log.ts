/**
 * The log accepts only declared fields: bodies, queries, headers, values and other libraries' messages cannot reach it
 * by accident. Writes JSON lines, or readable ones on a terminal.
 */
import pino from 'pino'

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

const allowed = [
  'requestId',
  'method',
  'route',
  'status',
  'ms',
  'code',
  'errorName',
  'stack',
  'host',
  'port',
  'engine',
  'workspaceId',
  'entity',
  'count',
  'job',
  'syncId',
  'provider',
] as const
export type LogFields = Partial<Record<(typeof allowed)[number], string | number>>

export type Log = {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  readonly isDebug: boolean
}

export function createLog(level: LogLevel, destination: { write(line: string): void } = standardOutput()): Log {
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  )
  const write = (severity: 'debug' | 'info' | 'warn' | 'error') => (message: string, fields?: LogFields) =>
    logger[severity](fields ? declared(fields) : {}, message)
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    isDebug: level === 'debug',
  }
}

/**
 * SQLite adds a number to its code (13 is a full disk); nodemailer adds the underlying code or the server's reply code.
 */
const codeFields = ['code', 'errcode', 'originalCode', 'responseCode']

/** Describes where an error occurred, without its message: libraries quote their input in messages. */
export function traceOf(error: unknown, depth = 0): LogFields {
  if (!(error instanceof Error)) return { errorName: typeof error }
  const codes = codeFields.map((name): unknown => Reflect.get(error, name))
  const code = codes.filter((part) => (typeof part === 'string' && part) || typeof part === 'number').join(' ')
  const cause = depth < 5 && error.cause instanceof Error ? traceOf(error.cause, depth + 1) : {}
  return {
    errorName: error.name,
    code: [code, cause.errorName, cause.code].filter(Boolean).join(' < '),
    stack: framesOf(error).slice(0, 6).join('\n'),
  }
}

/**
 * A stack starts with the message, and a line of the message may look like a frame. Only lines after the message are
 * used.
 */
function framesOf({ stack = '', message }: Error): string[] {
  const start = stack.indexOf(message)
  const rest = start < 0 ? '' : stack.slice(start + message.length)
  return rest.split('\n').filter((line) => line.trimStart().startsWith('at '))
}

function declared(fields: LogFields): LogFields {
  return Object.fromEntries(allowed.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]))
}

function standardOutput(): { write(line: string): void } {
  if (!process.stdout.isTTY) return pino.destination({ dest: 1, sync: false, minLength: 0 })
  return { write: (line) => process.stdout.write(readable(line)) }
}

function readable(line: string): string {
  const { level, time, msg, ...fields }: Record<string, unknown> = JSON.parse(line)
  const rest = Object.entries(fields)
    .map(([key, value]) => ` ${key}=${String(value)}`)
    .join('')
  return `${String(time).slice(11, 23)} ${String(level).padEnd(5)} ${String(msg)}${rest}\n`
}
