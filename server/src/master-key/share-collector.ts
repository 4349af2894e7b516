/** Collects shares until there are enough, and combines them. A share that is refused does not count. */
import { MasterKeyError } from './error.ts'
import { combineShares, isKeyOf, isShareOf, parseShare, type ShareSet } from './share.ts'

type Share = ReturnType<typeof parseShare>
type SetName = Pick<ShareSet, 'set' | 'threshold' | 'count'>

type ShareCollector = {
  /** The set of the newest share, or before one the newest set. Undefined until the first share, if no set is expected. */
  readonly set: SetName | undefined
  /** Shares of that set. */
  readonly given: number
  /** Returns the key with the last share that it needs. Throws one sentence for a share that does not count. */
  add(line: Uint8Array): Promise<Uint8Array | undefined>
}

/** Sets that open the store, newest first. Without one, the first share decides which set the others belong to. */
export function collectShares(expected: readonly ShareSet[] = []): ShareCollector {
  // Each set is collected apart: one share of a former set must not be in the way of the others.
  const shares = new Map<string, readonly Share[]>()
  let current: SetName | undefined = expected[0]
  const givenOf = (set: string) => shares.get(set) ?? []

  function requireFitting(share: Share): void {
    const sets = expected.length > 0 ? expected : [current ?? share]
    const wanted = sets.find(({ set }) => set === share.set)
    if (!wanted) {
      const names = sets.map(({ set }) => set).join(' or ')
      throw new MasterKeyError(
        `This share is of set ${share.set}, but the key of this store is split into set ${names}.`,
      )
    }
    if (share.threshold !== wanted.threshold || share.count !== wanted.count) {
      throw new MasterKeyError('This share does not fit the others of its set.')
    }
    if ('check' in wanted && !isShareOf(wanted, share)) {
      throw new MasterKeyError(`Share ${share.index} is not the one that was made for this store: ask its holder.`)
    }
    if (givenOf(share.set).some(({ index, bytes }) => index === share.index || bytes.at(-1) === share.bytes.at(-1))) {
      throw new MasterKeyError(`Share ${share.index} was already given.`)
    }
  }

  return {
    get set() {
      return current
    },
    get given() {
      return current ? givenOf(current.set).length : 0
    },
    async add(line) {
      const share = parseShare(line)
      try {
        requireFitting(share)
      } catch (error) {
        share.bytes.fill(0)
        throw error
      }
      const all = [...givenOf(share.set), share]
      shares.set(share.set, all)
      current = { set: share.set, threshold: share.threshold, count: share.count }
      if (all.length < share.threshold) return undefined
      shares.delete(share.set)
      const key = await combineShares(all)
      const from = expected.find(({ set }) => set === share.set)
      if (!from || isKeyOf(from, key)) return key
      key.fill(0)
      throw new MasterKeyError('These shares do not give the master key of this store: all were dropped, begin again.')
    },
  }
}
