/** Load from another process: wrk where it is installed or can be, autocannon otherwise. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installPackages, isAtHand } from '../test/debian-package.ts'
import { histogramLines, percentileMs, readHistogram } from './latency.ts'
import { makeFolder, removeFolder } from './scratch.ts'

export type Load = {
  readonly url: string
  /** PUT where there is a body, GET otherwise, unless it is said. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON; each `§` in it is replaced by a text that differs from request to request, also between runs. */
  readonly body?: string
  /** Asked for in turn, instead of the path of the URL. */
  readonly paths?: readonly string[]
  /** Credentials to ask with in turn, instead of the one in the headers. */
  readonly bearers?: readonly string[]
  /**
   * So many requests and no more, after a second of those that can be repeated. wrk cannot count: these are always sent
   * by autocannon.
   */
  readonly amount?: number
  readonly seconds: number
  readonly connections: number
}
export type Result = {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly errors: number
}
export type Generator = { readonly name: string; run(load: Load): Promise<Result> }

export const methodOf = ({ method, body }: Load) => method ?? (body === undefined ? 'GET' : 'PUT')

export function findGenerator(): Generator {
  if (!isAtHand('wrk') && process.getuid?.() === 0) installPackages(['wrk'])
  if (!isAtHand('wrk')) return { name: 'autocannon', run: runAutocannon }
  return { name: 'wrk', run: (load) => (load.amount === undefined ? runWrk(load) : runAutocannon(load)) }
}

async function runWrk(load: Load): Promise<Result> {
  const { url, headers = {}, seconds, connections } = load
  const folder = makeFolder()
  const script = join(folder, 'request.lua')
  writeFileSync(script, luaFor(load, folder))
  const lines = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  try {
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '20s', '-s', script]
    const text = await output('wrk', [...args, ...lines, url])
    const broken = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text)?.slice(1) ?? []
    const refused = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0
    const histogram = readHistogram(text, connections)
    return {
      perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
      p50Ms: percentileMs(histogram, 0.5),
      p99Ms: percentileMs(histogram, 0.99),
      errors: [refused, ...broken].reduce<number>((sum, count) => sum + Number(count), 0),
    }
  } finally {
    removeFolder(folder)
  }
}

/** wrk prepares a request that never changes only once; one that changes is made by this. */
function luaFor(load: Load, folder: string): string {
  const { body, paths, bearers } = load
  const lines = [...histogramLines, `wrk.method = "${methodOf(load)}"`]
  if (body !== undefined) lines.push('wrk.headers["Content-Type"] = "application/json"')
  const isSame = !paths && !bearers && !body?.includes('§')
  if (isSame) return [...lines, ...(body === undefined ? [] : [`wrk.body = ${JSON.stringify(body)}`])].join('\n')
  const list = (name: string, items: readonly string[]) => {
    const file = join(folder, name)
    writeFileSync(file, items.join('\n'))
    lines.push(`local ${name} = {}`, `for line in io.lines("${file}") do ${name}[#${name} + 1] = line end`)
  }
  if (paths) list('paths', paths)
  if (bearers) list('bearers', bearers)
  if (body !== undefined) lines.push(`local body = ${JSON.stringify(body)}`)
  return [
    ...lines,
    'local n = 0',
    'request = function()',
    '  n = n + 1',
    ...(bearers ? ['  wrk.headers["Authorization"] = "Bearer " .. bearers[(n - 1) % #bearers + 1]'] : []),
    `  local path = ${paths ? 'paths[(n - 1) % #paths + 1]' : 'nil'}`,
    `  local text = ${body === undefined ? 'nil' : `string.gsub(body, "§", "${Date.now()}_" .. n)`}`,
    '  return wrk.format(nil, path, nil, text)',
    'end',
  ].join('\n')
}

async function runAutocannon(load: Load): Promise<Result> {
  const folder = makeFolder()
  const file = join(folder, 'load.json')
  writeFileSync(file, JSON.stringify(load))
  const script = join(import.meta.dirname, 'cannon.ts')
  return JSON.parse(await output(process.execPath, [script, file]).finally(() => removeFolder(folder)))
}

function output(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    let text = ''
    child.stdout.on('data', (chunk) => {
      text += chunk
    })
    child.once('error', reject)
    child.once('close', (code) => (code === 0 ? resolve(text) : reject(new Error(`${command} ended with ${code}`))))
  })
}

export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}
