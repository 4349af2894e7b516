/** `.coffer.json`: where a folder's secrets are. It is committed with the code, so it never holds a secret. */
import { existsSync, lstatSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { CliError } from '../error.ts'
import { closestOf } from '../flag.ts'

export const projectFileName = '.coffer.json'

export type Source = { readonly project?: string; readonly environment?: string; readonly prefix?: string }

type ProjectFile = {
  readonly url?: string
  readonly workspace?: string
  readonly project?: string
  readonly environment?: string
  /** Merged in order; later sources win. */
  readonly sources?: readonly Source[]
  /** Names of secrets that `run` and `export` set although they make programs run other code. */
  readonly allowNames?: readonly string[]
  readonly run?: { readonly watch?: boolean; readonly redact?: boolean; readonly required?: readonly string[] }
}

export type FoundFile = { readonly path: string; readonly content: ProjectFile }

/** The nearest file from the folder upwards to the root of the git repository, or of the disk. */
export function findProjectFile(folder: string): FoundFile | undefined {
  for (let current = folder; ; current = dirname(current)) {
    const path = join(current, projectFileName)
    if (existsSync(path)) return { path, content: readProjectFile(path) }
    if (existsSync(join(current, '.git')) || dirname(current) === current) return undefined
  }
}

/** Replaces the file in one step. Returns its path. */
export function writeProjectFile(folder: string, content: ProjectFile): string {
  const path = join(folder, projectFileName)
  const fresh = `${path}.${process.pid}`
  try {
    writeFileSync(fresh, `${JSON.stringify(content, undefined, 2)}\n`)
    renameSync(fresh, path)
  } catch (error) {
    rmSync(fresh, { force: true })
    throw new CliError('failure', `${path} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`)
  }
  return path
}

function readProjectFile(path: string): ProjectFile {
  let text: string
  try {
    requireOwn(path)
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError('usage', `${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`)
  }
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new CliError('usage', `${path} is not JSON.`, 'correct it, or remove it and coffer init')
  }
  check(path, content, '', file)
  // Checked against the shape above.
  return content as ProjectFile
}

/** In /tmp everybody could write a file for everybody. As git does with repositories, `sudo` included. */
function requireOwn(path: string): void {
  if (!process.getuid) return
  const own = [process.getuid(), ...(process.getuid() === 0 ? [Number(process.env.SUDO_UID || 0)] : [])]
  if ([lstatSync(path), statSync(path)].every(({ uid }) => own.includes(uid))) return
  throw new CliError('usage', `${path} belongs to another user.`, `chown "$(id -u)" ${path}, if you know what it says`)
}

type Shape = 'text' | 'boolean' | { readonly list: Shape } | { readonly [field: string]: Shape }

const file: Shape = {
  url: 'text',
  workspace: 'text',
  project: 'text',
  environment: 'text',
  sources: { list: { project: 'text', environment: 'text', prefix: 'text' } },
  allowNames: { list: 'text' },
  run: { watch: 'boolean', redact: 'boolean', required: { list: 'text' } },
}

function check(path: string, value: unknown, field: string, shape: Shape): void {
  const fail = (message: string): never => {
    throw new CliError('usage', `${path}: ${field === '' ? 'the file' : field} ${message}`)
  }
  if (shape === 'text') {
    if (typeof value !== 'string' || value === '') fail('must be a text that is not empty.')
  } else if (shape === 'boolean') {
    if (typeof value !== 'boolean') fail('must be true or false.')
  } else if (isList(shape)) {
    if (!Array.isArray(value)) fail('must be a list.')
    else for (const [index, item] of value.entries()) check(path, item, `${field}[${index}]`, shape.list)
  } else {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) fail('must be an object.')
    for (const [name, inner] of Object.entries(Object(value))) {
      const inside = field === '' ? name : `${field}.${name}`
      const known = Object.hasOwn(shape, name) ? shape[name] : undefined
      if (!known) {
        const close = closestOf(name, Object.keys(shape))
        const meant = close ? ` Did you mean ${inside.slice(0, -name.length)}${close}?` : ''
        throw new CliError('usage', `${path}: ${inside} is not a known field.${meant}`)
      }
      check(path, inner, inside, known)
    }
  }
}

const isList = (shape: Shape): shape is { readonly list: Shape } => typeof shape === 'object' && 'list' in shape
