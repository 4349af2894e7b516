/**
 * Compresses responses that hold no value of a secret, if the client accepts it. A response is compressed as a whole
 * before it is sent: its length is known, and a slow reader occupies no compressor. Only streams of unknown length are
 * compressed while they are sent.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type BrotliCompress, constants, createBrotliCompress, createGzip, type Gzip } from 'node:zlib'
import { encodedEtag } from '../../etag.ts'
import type { Exchange, Route } from '../exchange.ts'

const encodings = ['br', 'gzip'] as const
type Encoding = (typeof encodings)[number]

/** Smaller responses fit into one packet as they are. */
const minBytes = 1_400
/** Compressors use the threads that also hash passwords and read files: two of the four stay free. */
const maxRunning = 2
/** A stream occupies its compressor as long as its reader likes. */
const maxStreams = 4

const compressibleType = /^(text\/|application\/(json|x-ndjson)|image\/svg)/

type Compressor = {
  /**
   * Replaces the payload by a compressed one, if the response may be compressed and the client accepts it. Undefined if
   * there is nothing to wait for.
   */
  compress(exchange: Exchange): Promise<void> | undefined
}

export function createCompressor(): Compressor {
  let running = 0
  let streams = 0
  /**
   * Static files share one buffer between all readers, so each is compressed once. A buffer is Node's object, which has
   * no field for this, and the compressed copies must not outlive it.
   */
  const shared = new WeakMap<Uint8Array, Map<Encoding, Promise<readonly Buffer[]>>>()

  async function inSlot<Result>(work: () => Promise<Result>): Promise<Result> {
    running++
    try {
      return await work()
    } finally {
      running--
    }
  }

  function compressShared(bytes: Uint8Array, encoding: Encoding): Promise<readonly Buffer[]> | undefined {
    const known = shared.get(bytes) ?? new Map<Encoding, Promise<readonly Buffer[]>>()
    shared.set(bytes, known)
    const compressing =
      known.get(encoding) ??
      (running < maxRunning ? inSlot(() => compressAll(Readable.from([bytes]), encoding)) : undefined)
    if (!compressing || known.has(encoding)) return compressing
    known.set(encoding, compressing)
    compressing.catch(() => known.delete(encoding))
    return compressing
  }

  async function replace(exchange: Exchange, encoding: Encoding, compressing: Promise<readonly Buffer[]>) {
    const pieces = await compressing
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
    const [only, ...rest] = pieces
    exchange.payload = only && rest.length === 0 ? only : Readable.from(pieces)
    exchange.header('content-length', bytes)
    exchange.reservation?.resize(bytes)
    label(exchange, encoding)
  }

  function compressStream(exchange: Exchange, payload: Readable, encoding: Encoding): undefined {
    if (streams >= maxStreams) return
    streams++
    const coder = createCoder(encoding)
    coder.once('close', () => {
      streams--
    })
    // A failure of either side destroys the other, and the response with it.
    pipeline(payload, coder).catch(() => undefined)
    exchange.payload = coder
    label(exchange, encoding)
  }

  return {
    compress(exchange) {
      const { route, payload, statusCode, answerHeaders, method } = exchange
      if (!route || !mayCompress(route, exchange) || (statusCode !== 200 && statusCode !== 304)) return undefined
      exchange.header('vary', 'Accept-Encoding')
      if (statusCode === 304) return undefined
      const encoding = chooseEncoding(exchange.headers['accept-encoding'])
      if (!encoding || payload === undefined || !compressibleType.test(String(answerHeaders['content-type']))) return
      const bytes = answerHeaders['content-length']
      if (bytes !== undefined && Number(bytes) < minBytes) return undefined
      if (method === 'HEAD') {
        // The length of the compressed response is unknown without compressing it.
        delete answerHeaders['content-length']
        return void label(exchange, encoding)
      }
      if (payload instanceof Readable && bytes === undefined) return compressStream(exchange, payload, encoding)
      if (payload instanceof Uint8Array && !route.endpoint) {
        const compressing = compressShared(payload, encoding)
        return compressing && replace(exchange, encoding, compressing)
      }
      if (running >= maxRunning) return undefined
      const source = payload instanceof Readable ? payload : Readable.from([Buffer.from(payload)])
      return replace(
        exchange,
        encoding,
        inSlot(() => compressAll(source, encoding)),
      )
    },
  }
}

function mayCompress({ endpoint, isCompressible = false }: Route, { query }: Exchange): boolean {
  if (!endpoint) return isCompressible
  const { withoutValues } = endpoint
  if (withoutValues === undefined || withoutValues === true) return withoutValues ?? false
  return withoutValues.some((view) => view === Object(query).view)
}

async function compressAll(source: Readable, encoding: Encoding): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = []
  await pipeline(source, createCoder(encoding), async (compressed: AsyncIterable<Buffer>) => {
    for await (const piece of compressed) pieces.push(piece)
  })
  return pieces
}

/** Settings that take about as long for either encoding; a small window bounds the memory of each compressor. */
function createCoder(encoding: Encoding): BrotliCompress | Gzip {
  if (encoding === 'gzip') return createGzip({ level: 5 })
  return createBrotliCompress({
    params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 18 },
  })
}

function label(exchange: Exchange, encoding: Encoding): void {
  exchange.header('content-encoding', encoding)
  const { etag } = exchange.answerHeaders
  if (typeof etag === 'string') exchange.header('etag', encodedEtag(etag, encoding))
}

/** The encoding that the client prefers; undefined if it accepts none of ours, or prefers the plain response. */
export function chooseEncoding(header: string | string[] | undefined): Encoding | undefined {
  if (header === undefined || header.length === 0) return undefined
  const weights = new Map<string, number>()
  for (const part of String(header).toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
    const quality = parameters.find((text) => text.startsWith('q='))?.slice(2)
    const weight = quality === undefined ? 1 : Number(quality)
    weights.set(name === 'x-gzip' ? 'gzip' : name, weight >= 0 && weight <= 1 ? weight : 0)
  }
  const weightOf = (name: string) => weights.get(name) ?? weights.get('*') ?? 0
  const [best] = encodings.toSorted((a, b) => weightOf(b) - weightOf(a))
  if (!best || weightOf(best) === 0 || (weights.get('identity') ?? 0) > weightOf(best)) return undefined
  return best
}
