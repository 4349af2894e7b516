/** Load from another process: wrk where it is installed or can be, autocannon otherwise. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Load = {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent by PUT as JSON; `§` in it is replaced by a number that differs from request to request. */
  readonly body?: string
  /** Asked for in turn, instead of the path of the URL. */
  readonly paths?: readonly string[]
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

export function findGenerator(): Generator {
  if (!hasWrk() && process.getuid?.() === 0) {
    spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'wrk'], { stdio: 'ignore' })
  }
  return hasWrk() ? { name: 'wrk', run: runWrk } : { name: 'autocannon', run: runAutocannon }
}

function hasWrk(): boolean {
  return spawnSync('sh', ['-c', 'command -v wrk'], { stdio: 'ignore' }).status === 0
}

async function runWrk({ url, headers = {}, body, paths, seconds, connections }: Load): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-wrk-'))
  const script = join(folder, 'request.lua')
  const lua = body === undefined ? paths && luaForPaths(paths) : luaForBody(body)
  if (lua) writeFileSync(script, lua)
  const lines = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const scripted = lua ? ['-s', script] : []
  try {
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', ...scripted, ...lines, url]
    const text = await output('wrk', args)
    return {
      perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
      p50Ms: duration(/50%\s+([\d.]+)(us|ms|s)/.exec(text)),
      p99Ms: duration(/99%\s+([\d.]+)(us|ms|s)/.exec(text)),
      errors: Number(/Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function luaForBody(body: string): string {
  const [before = '', after = ''] = body.split('§').map((part) => JSON.stringify(part))
  return `wrk.method = "PUT"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, nil, nil, ${before} .. n .. ${after})
end
`
}

function luaForPaths(paths: readonly string[]): string {
  return `local paths = { ${paths.map((path) => JSON.stringify(path)).join(', ')} }
local n = 0
request = function()
  n = n % #paths + 1
  return wrk.format(nil, paths[n])
end
`
}

function duration(match: RegExpExecArray | null): number {
  const factors: Record<string, number> = { us: 0.001, ms: 1, s: 1_000 }
  return match ? Number(match[1]) * (factors[match[2] ?? ''] ?? Number.NaN) : Number.NaN
}

async function runAutocannon({ url, headers = {}, body, paths, seconds, connections }: Load): Promise<Result> {
  const lines = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}=${value}`])
  const sent =
    body === undefined
      ? []
      : ['-m', 'PUT', '-H', 'content-type=application/json', '-b', body.replace('§', '[<id>]'), '-I']
  const bin = join(import.meta.dirname, '../node_modules/.bin/autocannon')
  const folder = mkdtempSync(join(tmpdir(), 'coffer-autocannon-'))
  const archive = join(folder, 'paths.har')
  if (paths) writeFileSync(archive, JSON.stringify(harFor(url, paths)))
  const turns = paths ? ['--har', archive] : []
  const args = ['-c', String(connections), '-d', String(seconds), '-j', ...sent, ...turns, ...lines, url]
  const text = await output(bin, args).finally(() => rmSync(folder, { recursive: true, force: true }))
  const result: { requests: { average: number }; latency: { p50: number; p99: number }; non2xx: number } =
    JSON.parse(text)
  const { requests, latency, non2xx } = result
  return { perSecond: requests.average, p50Ms: latency.p50, p99Ms: latency.p99, errors: non2xx }
}

function harFor(url: string, paths: readonly string[]) {
  const entries = paths.map((path) => ({ request: { method: 'GET', url: new URL(path, url).href, headers: [] } }))
  return { log: { version: '1.2', creator: { name: 'bench', version: '1' }, entries } }
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
