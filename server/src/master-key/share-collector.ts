/** Collects shares until there are enough, and combines them. A share that is refused does not count. */
import { MasterKeyError } from './error.ts'
import { combineShares, isKeyOf, parseShare, type ShareSet } from './share.ts'

type Share = ReturnType<typeof parseShare>

type ShareCollector = {
  /** Undefined until the first share, if the set was not known before. */
  readonly threshold: number | undefined
  readonly given: number
  /** Returns the key with the last share that it needs. Throws one sentence for a share that does not count. */
  add(line: Uint8Array): Promise<Uint8Array | undefined>
}

/** Without `expected`, the first share decides which set the others belong to. */
export function collectShares(expected?: ShareSet): ShareCollector {
  let shares: Share[] = []
  const wanted = () => expected ?? shares[0]

  function requireFitting(share: Share): void {
    const { set, threshold, count } = wanted() ?? share
    if (share.set !== set) {
      throw new MasterKeyError(`This share is of set ${share.set}, but the key of this store is split into set ${set}.`)
    }
    if (share.threshold !== threshold || share.count !== count) {
      throw new MasterKeyError('This share does not fit the others of its set.')
    }
    if (shares.some(({ index, bytes }) => index === share.index || bytes.at(-1) === share.bytes.at(-1))) {
      throw new MasterKeyError(`Share ${share.index} was already given.`)
    }
  }

  return {
    get threshold() {
      return wanted()?.threshold
    },
    get given() {
      return shares.length
    },
    async add(line) {
      const share = parseShare(line)
      try {
        requireFitting(share)
      } catch (error) {
        share.bytes.fill(0)
        throw error
      }
      shares.push(share)
      if (shares.length < share.threshold) return undefined
      const all = shares
      shares = []
      const key = await combineShares(all)
      if (!expected || isKeyOf(expected, key)) return key
      key.fill(0)
      throw new MasterKeyError('These shares do not give the master key of this store: all were dropped, begin again.')
    },
  }
}
