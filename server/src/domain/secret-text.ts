/** The JSON that a read of secrets is answered with, and its ETag. */
import { createHmac, type Hmac } from 'node:crypto'
import type { Secret } from '@coffer/contract/secret'
import type { SecretRecord } from '../store/secret.ts'
import type { Context } from './context.ts'
import { commaAt, type Pieces, writePieces } from './secret-pieces.ts'
import { createAllowance, smallBytes } from './secret-size.ts'

export type Answered = {
  readonly secrets: readonly SecretRecord[]
  /** One of them with its rows. */
  describe(secret: SecretRecord): Secret
  /** Otherwise the answer is the one secret. */
  readonly isList: boolean
  /** How the caller would ask for less. */
  readonly advice: string
}
type SecretText = { readonly etag: string; readonly body: string | Pieces }

export function writeText(ctx: Context, { secrets, describe, isList }: Answered): SecretText {
  const described = secrets.map(describe)
  const body = JSON.stringify(isList ? described : described[0])
  return { body, etag: toEtag(createEtagHash(ctx).update(body)) }
}

/** The very same text and ETag, without keeping others waiting. */
export async function writeLargeText(ctx: Context, answered: Answered): Promise<SecretText> {
  const allowance = createAllowance(ctx, 'environmentId', answered.advice)
  const hash = createEtagHash(ctx)
  const pieces: Pieces = []
  let bytes = 0
  for await (const piece of writePieces(entriesOf(answered), allowance)) {
    hash.update(piece)
    pieces.push(piece)
    bytes += piece.length
  }
  return { body: bytes > smallBytes ? pieces : Buffer.concat(pieces).toString(), etag: toEtag(hash) }
}

function* entriesOf({ secrets, describe, isList }: Answered): Generator<string> {
  if (isList) yield '['
  for (const [index, secret] of secrets.entries()) {
    const { values, ...fields } = describe(secret)
    yield `${commaAt(index)}${JSON.stringify(fields).slice(0, -1)},"values":[`
    for (const [at, row] of values.entries()) yield commaAt(at) + JSON.stringify(row)
    yield ']}'
  }
  if (isList) yield ']'
}

/** Keyed, as a plain hash of a value could be guessed at. */
const createEtagHash = (ctx: Context): Hmac => createHmac('sha256', ctx.keys.keyring.active.audit)

const toEtag = (hash: Hmac): string => `"${hash.digest('base64url')}"`
