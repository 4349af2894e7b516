// `npm start` and its like: builds what has changed, then runs the service with the limits of memory that it is measured
// with. Where the system can, the service takes the place of this process, so that signals of npm reach it. Plain
// JavaScript on purpose: an old Node can read it too, and says what is missing.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const pathOf = (name) => fileURLToPath(new URL(name, import.meta.url))
/** Read first: the parent may end while the dashboard is built. */
const followParent = new URL(`follow-parent.js?parent=${process.ppid}`, import.meta.url).href

/** What the allocator of the system reads, and options of V8. */
const { environment, nodeOptions } = JSON.parse(readFileSync(pathOf('limits.json'), 'utf8'))

/** `--dashboard` builds the pages before; `--watch` starts the service again after a change. The rest are its own words. */
function launch([first, ...rest]) {
  if (first === '--dashboard') {
    const { status } = spawnSync(process.execPath, [pathOf('../dashboard/build.ts'), '--if-changed'], {
      stdio: 'inherit',
    })
    return status === 0 ? launch(rest) : exit(status ?? 1)
  }
  const isWatched = first === '--watch'
  const words = isWatched || first === undefined ? rest : [first, ...rest]
  const env = { ...process.env, ...environment }
  const service = [...nodeOptions, pathOf('start.js'), ...words]
  if (!isWatched && process.platform !== 'win32' && process.execve) {
    process.execve(process.execPath, [process.execPath, '--import', followParent, ...service], env)
  }
  const child = spawn(process.execPath, [...(isWatched ? ['--watch'] : []), ...service], { env, stdio: 'inherit' })
  child.once('exit', (code) => {
    exit(code ?? 1)
    process.exit()
  })
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal))
  import(followParent)
}

function exit(code) {
  process.exitCode = code
}

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`Coffer needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  exit(1)
} else launch(process.argv.slice(2))
