/**
 * The first minute of a newcomer, by the commands of README.md: clone, install, start, log in, import, run. Prints the
 * commands and their seconds; with --write, into first-minute.md. Everything happens in a temporary folder.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'

const root = join(import.meta.dirname, '..')
const page = join(import.meta.dirname, 'first-minute.md')
const section = /(<!-- minute -->\n)[\s\S]*?(<!-- \/minute -->)/

type Step = { readonly what: string; readonly command: string; readonly seconds: number }

/** An application as it is before Coffer: its secrets are in `.env`. */
const application = {
  '.env': 'DATABASE_URL="postgres://app:p@ss word@localhost/app"\nAPI_KEY=key-of-the-first-minute\n',
  'package.json': '{ "name": "my-app", "scripts": { "dev": "node app.js" } }\n',
  'app.js': 'console.log("ready:", process.env.DATABASE_URL, process.env.API_KEY)\nsetInterval(() => {}, 1_000)\n',
}
const readyLine = 'ready: postgres://app:p@ss word@localhost/app key-of-the-first-minute'
const password = 'a long enough password'

/** The commands of README.md: the line that installs and starts, and the lines of the second terminal. */
export function readCommands(): { readonly start: string; readonly next: readonly string[] } {
  const text = readFileSync(join(root, 'README.md'), 'utf8')
  const [, start = '', second = ''] = /## Start\n\n```sh\n(.*)\n```[\s\S]*?```sh\n([\s\S]*?)\n```/.exec(text) ?? []
  return { start, next: second.split('\n').map((line) => line.replace(/ +#.*$/, '')) }
}

export async function takeFirstMinute(): Promise<readonly Step[]> {
  const folder = mkdtempSync(join(tmpdir(), 'coffer-first-minute-'))
  const checkout = join(folder, 'coffer')
  const home = join(folder, 'home')
  for (const name of ['home', 'my-app']) mkdirSync(join(folder, name))
  for (const [name, content] of Object.entries(application)) writeFileSync(join(folder, 'my-app', name), content)
  const port = await findPort()
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    TERM: 'xterm',
    npm_config_cache: process.env.npm_config_cache ?? join(process.env.HOME ?? '', '.npm'),
    npm_config_offline: 'true',
    npm_config_update_notifier: 'false',
  }
  const started: ChildProcess[] = []
  const steps: Step[] = []
  const take = async (what: string, command: string, work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    await work()
    steps.push({ what, command, seconds: (performance.now() - startedAt) / 1_000 })
  }
  // Something else may use the default port, so the service and the command line are told another one.
  const url = { COFFER_URL: `http://localhost:${port}` }
  const open = (command: string, settings: NodeJS.ProcessEnv = url) => {
    const terminal = openTerminal(command, checkout, { ...env, ...settings })
    started.push(terminal.child)
    return terminal
  }
  try {
    const { start, next } = readCommands()
    const [install = '', serve = ''] = start.split(' && ')
    const [login = '', load = '', run = ''] = next
    const clone = ['clone', '--quiet', '--no-hardlinks', root, checkout]
    await take('clone', 'git clone … coffer && cd coffer', () => promisify(execFile)('git', clone))
    await take('install', install, () => open(install).ends())
    const service = open(serve, { COFFER_PORT: String(port) })
    await take('start', serve, () => service.shows('Coffer is ready'))
    await take('log in, with a new account and project', login, async () => {
      const terminal = open(login)
      for (const [question, answer] of [
        ['Email address', 'ada@example.com'],
        ['Your name', ''],
        ['Password', password],
        ['same password', password],
        ['Create the project my-app', ''],
      ] as const) {
        await terminal.shows(question)
        terminal.type(`${answer}\r`)
      }
      await terminal.ends()
    })
    await take('import', load, () => open(load).ends())
    const application = open(run)
    await take('run', run, () => application.shows(readyLine))
    application.type('\u0003')
    await application.hasEnded
    service.type('\u0003')
    await service.hasEnded
    return steps
  } finally {
    for (const child of started) endGroup(child)
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Something that is far too slow ends; nothing is measured by it. */
const deadlineMs = 300_000

/** A command in a pseudo-terminal, as a person would type it. */
function openTerminal(command: string, cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn('script', ['-qefc', command, '/dev/null'], { cwd, env, detached: true })
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text
  })
  child.stdin.on('error', () => undefined)
  const hasEnded = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve)
  })
  let seen = 0
  return {
    child,
    hasEnded,
    type: (text: string) => void child.stdin.write(text),
    async shows(text: string): Promise<void> {
      for (const end = performance.now() + deadlineMs; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
        const plain = stripVTControlCharacters(screen)
        const found = plain.indexOf(text, seen)
        seen = found < 0 ? seen : found + text.length
        if (found >= 0) return
        const hasFailed = child.exitCode !== null || performance.now() > end
        if (hasFailed) throw new Error(`${command} has not shown "${text}":\n${plain}`)
      }
    },
    async ends(): Promise<void> {
      const code = await hasEnded
      if (code !== 0) throw new Error(`${command} has ended with ${code}:\n${stripVTControlCharacters(screen)}`)
    },
  }
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

/** Below the ephemeral port range: the system must not hand it out during the installation. */
async function findPort(): Promise<number> {
  const port = randomInt(10_000, 32_768)
  const server = createServer()
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!isFree) return findPort()
  await new Promise((resolve) => server.close(resolve))
  return port
}

function describe(steps: readonly Step[]): string {
  const total = steps.reduce((sum, { seconds }) => sum + seconds, 0)
  const rows = steps.map(({ what, command, seconds }) => `| ${what} | \`${command}\` | ${seconds.toFixed(1)} |`)
  const day = new Date().toISOString().slice(0, 10)
  return [
    '| Step | Command | Seconds |',
    '|---|---|---|',
    ...rows,
    `| **5 commands** | | **${total.toFixed(1)}** |`,
    '',
    `Measured on ${day} with ${cpus().length} cores, Node ${process.versions.node}.`,
  ].join('\n')
}

if (import.meta.main) {
  const table = describe(await takeFirstMinute())
  console.log(table)
  if (process.argv.includes('--write')) {
    const text = readFileSync(page, 'utf8')
    writeFileSync(
      page,
      text.replace(section, (_, start, end) => `${start}${table}\n${end}`),
    )
  }
}
