/**
 * The setup code proves that the creator of the first account can read the log, the data folder or the settings of the
 * service. No address and no header stands in for it: behind a proxy every request may look local.
 */
import { timingSafeEqual } from 'node:crypto'
import { Failure } from '../../failure.ts'
import type { Keys } from '../../store/key/key.ts'

export type SetupCode = {
  /** Set by the operator, who knows it: it is neither printed nor kept in the data folder. */
  readonly isChosen: boolean
  readonly value: string
}

/** Derived from the keys, so that all nodes have the same code, also after a restart. */
export function createSetupCode(chosen: string | undefined, keys: Keys): SetupCode {
  return {
    isChosen: chosen !== undefined,
    get value() {
      return chosen ?? derivedCode(keys)
    },
  }
}

/** 15 bytes: short enough to type, too long to guess. */
const derivedCode = ({ keyring }: Keys) => keyring.active.setup.export().subarray(0, 15).toString('base64url')

export function requireSetupCode(code: SetupCode, given: string | undefined): void {
  if (isEqual(code.value, given ?? '')) return
  throw new Failure(
    'forbidden',
    'setupCode: the first account needs the code in COFFER_SETUP_CODE or, if that is not set, in the link printed at the start and in the file setup-code of the data folder.',
  )
}

function isEqual(expected: string, actual: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(actual)]
  return a.length === b.length && timingSafeEqual(a, b)
}
