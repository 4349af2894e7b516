/** Writes the JSON response of a secret read, and its ETag. */
import type { Secret } from '@coffer/contract/secret'
import { createEtagMaker } from '../../../etag.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { Context } from '../../context.ts'
import { createAllowance } from '../size.ts'
import { commaAt, type WrittenAnswer, writeAnswer } from './chunks.ts'

export type Answered = {
  readonly secrets: readonly SecretRecord[]
  /** Adds the rows to one of the secrets. */
  describe(secret: SecretRecord): Secret
  /** If false, the response is a single secret. */
  readonly isList: boolean
  /** Error text for a response that is too large: how to ask for less. */
  readonly advice: string
}

export async function writeSecrets(
  ctx: Context,
  answered: Answered,
): Promise<WrittenAnswer & { readonly etag: string }> {
  const allowance = createAllowance(ctx, 'environmentId', answered.advice)
  const etag = createEtagMaker(ctx.keys.keyring.active.audit)
  const written = await writeAnswer(ctx, entriesOf(answered), allowance, { onPiece: etag.add })
  return { ...written, etag: etag.finish() }
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
