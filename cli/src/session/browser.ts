/** Opens a page of the service in the browser of the person. */
import { nodeTransport } from '@coffer/sdk/node'
import type { Environment } from '../environment.ts'

const checkMs = 5_000
/** An opener that still runs after this time shows the page itself. */
const startMs = 2_000

/** One request: an address that a person cannot use is not worth opening. Throws if nothing answers. */
export async function requestPage(url: string): Promise<boolean> {
  if (!isWebAddress(url)) return false
  const signal = AbortSignal.timeout(checkMs)
  const { status, header } = await nodeTransport({
    method: 'GET',
    url,
    headers: { accept: 'text/html' },
    body: undefined,
    maxBytes: 4_000_000,
    signal,
  })
  return status === 200 && header('content-type')?.startsWith('text/html') === true
}

export const hasPage = (url: string): Promise<boolean> => requestPage(url).catch(() => false)

/** The service chooses the address; a file or an option of the opener must not be one. */
const isWebAddress = (url: string): boolean => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)

/** False if this session has no screen, or nothing on it can open a page. */
export async function openPage(env: Environment, url: string): Promise<boolean> {
  const opener = openerOf(env)
  if (!opener || !isWebAddress(url)) return false
  const { spawn } = process.getBuiltinModule('node:child_process')
  const [command, ...args] = opener
  // A browser has no use for the credentials of the command line.
  const visible = Object.entries(env).filter(([name]) => !name.startsWith('COFFER_'))
  const child = spawn(command, [...args, url], { detached: true, stdio: 'ignore', env: Object.fromEntries(visible) })
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, startMs, true)
    const end = (isOpen: boolean) => {
      clearTimeout(timer)
      resolve(isOpen)
    }
    child.once('error', () => end(false))
    child.once('exit', (code) => end(code === 0))
    child.unref()
  })
}

function openerOf(env: Environment): readonly [command: string, ...args: string[]] | undefined {
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler']
  if (process.platform === 'darwin') return env.SSH_CONNECTION ? undefined : ['open']
  return env.DISPLAY || env.WAYLAND_DISPLAY ? ['xdg-open'] : undefined
}
