/** Generates load from another process: wrk if it is installed or installable, otherwise autocannon. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installPackages, isInstalled } from '../test/debian-package.ts'
import { histogramLines, percentileMs, readHistogram } from './latency.ts'
import { makeFolder, removeFolder } from './scratch.ts'

export type Load = {
  readonly url: string
  /** Default: PUT with a body, GET without. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON; each `§` is replaced by text that is unique per request, also across runs. */
  readonly body?: string
  /** Requested round-robin, instead of the path of the URL. */
  readonly paths?: readonly string[]
  /** Credentials used round-robin, instead of the one in the headers. */
  readonly bearers?: readonly string[]
  /**
   * Sends exactly this many requests, after one second of repeatable ones. Always uses autocannon: wrk cannot limit the
   * number of requests.
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
  if (!isInstalled('wrk') && process.getuid?.() === 0) installPackages(['wrk'])
  if (!isInstalled('wrk')) return { name: 'autocannon', run: runAutocannon }
  return { name: 'wrk', run: (load) => (load.amount === undefined ? runWrk(load) : runAutocannon(load)) }
}

async function runWrk(load: Load): Promise<Result> {
  const { url, headers = {}, seconds, connections } = load
  const folder = makeFolder()
  const script = join(folder, 'request.lua')
  writeFileSync(script, luaFor(load, folder))
  const headerArgs = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  try {
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '20s', '-s', script]
    const text = await output('wrk', [...args, ...headerArgs, url])
    const socketErrors =
      /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text)?.slice(1) ?? []
    const errorResponses = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0
    const histogram = readHistogram(text, connections)
    return {
      perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
      p50Ms: percentileMs(histogram, 0.5),
      p99Ms: percentileMs(histogram, 0.99),
      errors: [errorResponses, ...socketErrors].reduce<number>((sum, count) => sum + Number(count), 0),
    }
  } finally {
    removeFolder(folder)
  }
}

/** wrk formats a constant request only once; a request that changes is built by this script. */
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
    child.once('close', (code) => (code === 0 ? resolve(text) : reject(new Error(`${command} exited with ${code}`))))
  })
}

export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}
