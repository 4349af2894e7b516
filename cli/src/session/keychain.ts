/**
 * The keychain of the operating system. It is optional: every function returns that it does not work instead of failing,
 * because servers, containers and WSL have none.
 */
import type { AsyncEntry } from './keyring.ts'

const service = 'coffer'
/** A keychain that asks its user for a password waits longer; a command must not. */
const limitMs = 10_000
/** Without it Linux falls back to the keyring of the kernel, which forgets everything when the user signs out. */
const options = { linux: { store: 'secret-service' } } as const

/** Undefined if there is no such entry, or no keychain. */
export async function readKeychain(name: string): Promise<string | undefined> {
  const { value } = await withEntry(name, (entry) => entry.getPassword())
  return value ?? undefined
}

/** False if there is no keychain. */
export async function writeKeychain(name: string, secret: string): Promise<boolean> {
  const { isDone } = await withEntry(name, (entry) => entry.setPassword(secret))
  return isDone
}

/** False if there is no keychain. */
export async function deleteKeychain(name: string): Promise<boolean> {
  const { isDone } = await withEntry(name, (entry) => entry.deletePassword())
  return isDone
}

/** Writes, reads and deletes an entry: some keychains exist but are locked. */
export async function hasKeychain(): Promise<boolean> {
  const name = `probe ${process.pid}`
  if (!(await writeKeychain(name, name))) return false
  const isKept = (await readKeychain(name)) === name
  return (await deleteKeychain(name)) && isKept
}

type Outcome<Value> = { readonly isDone: boolean; readonly value?: Value }

async function withEntry<Value>(name: string, use: (entry: AsyncEntry) => Promise<Value>): Promise<Outcome<Value>> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<Outcome<Value>>((resolve) => {
    timer = setTimeout(resolve, limitMs, { isDone: false })
  })
  const work = async (): Promise<Outcome<Value>> => {
    const { AsyncEntry } = await import('./keyring.ts')
    return { isDone: true, value: await use(new AsyncEntry(service, name, options)) }
  }
  try {
    return await Promise.race([work(), limit])
  } catch {
    return { isDone: false }
  } finally {
    clearTimeout(timer)
  }
}
