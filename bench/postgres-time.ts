/** Processor time of a PostgreSQL server, with all of its processes. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Ticks per second of /proc on Linux. */
const ticks = 100

/** The server itself, its living children, and those that have ended. */
export function postgresCpuMs(dataDir: string): number {
  const server = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')[0] ?? ''
  let spent = ranMs(server) + endedMs(server)
  for (const pid of readdirSync('/proc')) if (/^\d+$/.test(pid) && parentOf(pid) === server) spent += ranMs(pid)
  return spent
}

/** A process may end while it is read; its time then counts as ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const ranMs = (pid: string) => Number(read(`/proc/${pid}/schedstat`).split(' ')[0]) / 1e6

/** The fields of a process after its name, which may contain spaces: the first is its state. */
const fieldsOf = (pid: string) =>
  read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
const parentOf = (pid: string) => fieldsOf(pid)[1]

function endedMs(pid: string): number {
  const [user = '0', system = '0'] = fieldsOf(pid).slice(13, 15)
  return ((Number(user) + Number(system)) * 1_000) / ticks
}
