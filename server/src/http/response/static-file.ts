/** Files that are served as they are: read when they are asked for, and in memory only while somebody receives them. */
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { codeOf } from '../../error-code.ts'
import { fileEtag, findKnownEtag } from '../../etag.ts'
import { Failure } from '../../failure.ts'
import type { Exchange } from '../exchange.ts'
import { chooseEncoding } from './compress.ts'

type LoadedFile = { readonly bytes: Buffer; readonly etag: string }
type FileLoader = (path: string) => Promise<LoadedFile>

/**
 * Shares one copy of a file between all connections: a slow reader holds a reference, not a megabyte of its own. The
 * garbage collector frees the copy when no connection uses it.
 */
export function createFileLoader(): FileLoader {
  const loading = new Map<string, Promise<LoadedFile>>()
  const loaded = new Map<string, { readonly bytes: WeakRef<Buffer>; readonly etag: string }>()

  async function load(path: string): Promise<LoadedFile> {
    try {
      const bytes = await readFile(path)
      const etag = fileEtag(bytes)
      loaded.set(path, { bytes: new WeakRef(bytes), etag })
      return { bytes, etag }
    } finally {
      loading.delete(path)
    }
  }

  return async (path) => {
    const known = loaded.get(path)
    const bytes = known?.bytes.deref()
    if (known && bytes) return { bytes, etag: known.etag }
    const pending = loading.get(path) ?? load(path)
    loading.set(path, pending)
    return pending
  }
}

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}

const extensions = { br: '.br', gzip: '.gz' } as const

export type StaticFolder = {
  /** True if the folder held this file at the start. A name is a path from the folder; compressed copies have none. */
  has(name: string): boolean
  /** Sends the file, compressed if the build made a copy that the client accepts. */
  send(exchange: Exchange, name: string, headers: Readonly<Record<string, string>>): Promise<Exchange>
}

/** Serves exactly the files that are in the folder now; no path of a request ever becomes a path of the disk. */
export function openStaticFolder(folder: string): StaticFolder {
  const load = createFileLoader()
  const names = listFiles(folder)

  return {
    has: (name) => names.has(name) && !/\.(br|gz)$/.test(name),
    async send(exchange, name, headers) {
      const encoding = chooseEncoding(exchange.headers['accept-encoding'])
      const variant = encoding && names.has(name + extensions[encoding]) ? extensions[encoding] : ''
      const file = await load(join(folder, name + variant)).catch(asMissing)
      for (const [header, value] of Object.entries(headers)) exchange.header(header, value)
      exchange.header('content-type', types[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream')
      exchange.header('vary', 'Accept-Encoding')
      if (encoding && variant) exchange.header('content-encoding', encoding)
      return sendFile(exchange, file)
    },
  }
}

/** Sends nothing to a client that has the file. */
export function sendFile(exchange: Exchange, { bytes, etag }: LoadedFile): Exchange {
  const known = findKnownEtag(exchange.headers['if-none-match'], etag)
  exchange.header('etag', known ?? etag)
  return known === undefined ? exchange.send(bytes) : exchange.status(304).send()
}

function listFiles(folder: string): ReadonlySet<string> {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
    return new Set(
      entries
        .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
        .map(({ parentPath, name }) => relative(folder, join(parentPath, name))),
    )
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return new Set()
    throw error
  }
}

/** A file that was there at the start and is gone, such as during a build, is not an error of the service. */
function asMissing(error: unknown): never {
  throw codeOf(error) === 'ENOENT' ? new Failure('notFound') : error
}
