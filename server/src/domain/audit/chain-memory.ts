/** What this process knows about audit chains from its own commits: it saves a query or a verification. */
import { setBounded } from '../../bounded-map.ts'
import type { SignedHead } from '../../store/audit/head.ts'

/** A list known to be in the store: last marked as used at `sequence`, while the chain was cut at `cutSequence`. */
export type StoredList = { readonly sequence: number; readonly cutSequence: number }

export type ChainMemory = {
  /** Key lists that are stored already, so that a repeated read needs no insert. */
  findList(name: string): StoredList | undefined
  rememberList(name: string, stored: StoredList): void
  /** True for the head that this process signed last. It needs no verification, which costs more than signing. */
  isOwnHead(chain: string, head: SignedHead): boolean
  rememberHead(chain: string, head: SignedHead): void
}

const maxRemembered = 10_000

export function createChainMemory(): ChainMemory {
  const lists = new Map<string, StoredList>()
  const heads = new Map<string, string>()
  return {
    findList: (name) => lists.get(name),
    rememberList: (name, stored) => setBounded(lists, maxRemembered, name, stored),
    isOwnHead: (chain, head) => heads.get(chain) === headText(head),
    rememberHead: (chain, head) => setBounded(heads, maxRemembered, chain, headText(head)),
  }
}

function headText({ sequence, hash, signature, keyId }: SignedHead): string {
  return `${sequence} ${hash} ${keyId} ${signature && Buffer.from(signature).toString('base64')}`
}
