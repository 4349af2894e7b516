/**
 * Times of last use of tokens, identities and sessions: noted in memory by every request, written every few seconds. A
 * crash loses only the last few seconds of notes.
 */
import type { Store } from '../../store/store.ts'

type TokenUse = { readonly workspaceId: string; readonly at: number; readonly ip: string }

export type Usage = {
  noteToken(tokenId: string, workspaceId: string, at: number, ip: string): void
  noteIdentity(identityId: string, workspaceId: string, at: number): void
  noteSession(sessionId: string, userId: string, at: number): void
  /** The latest use, which may not be written to the store yet. */
  pendingToken(tokenId: string): TokenUse | undefined
  pendingSession(sessionId: string): SessionUse | undefined
  pendingIdentity(identityId: string): IdentityUse | undefined
  /** Returns the notes for `writeUsage` to write, and starts empty. They still count as pending until the next call. */
  take(): {
    readonly tokens: ReadonlyMap<string, TokenUse>
    readonly identities: ReadonlyMap<string, IdentityUse>
    readonly sessions: ReadonlyMap<string, SessionUse>
  }
}
type IdentityUse = { readonly workspaceId: string; readonly at: number }
type SessionUse = { readonly userId: string; readonly at: number }

export function createUsage(): Usage {
  let noted = emptyNotes()
  // Kept until the next write: a reader may have loaded its row from the store before this one was finished.
  let taken = emptyNotes()
  return {
    noteToken(tokenId, workspaceId, at, ip) {
      noted.tokens.set(tokenId, { workspaceId, at, ip })
    },
    noteIdentity(identityId, workspaceId, at) {
      noted.identities.set(identityId, { workspaceId, at })
    },
    noteSession(sessionId, userId, at) {
      noted.sessions.set(sessionId, { userId, at })
    },
    pendingToken: (tokenId) => noted.tokens.get(tokenId) ?? taken.tokens.get(tokenId),
    pendingSession: (sessionId) => noted.sessions.get(sessionId) ?? taken.sessions.get(sessionId),
    pendingIdentity: (identityId) => noted.identities.get(identityId) ?? taken.identities.get(identityId),
    take() {
      taken = noted
      noted = emptyNotes()
      return taken
    },
  }
}

const emptyNotes = () => ({
  tokens: new Map<string, TokenUse>(),
  identities: new Map<string, IdentityUse>(),
  sessions: new Map<string, SessionUse>(),
})

export async function writeUsage(store: Store, taken: ReturnType<Usage['take']>): Promise<void> {
  for (const [id, use] of taken.tokens) store.tokens.touch(id, use.workspaceId, use.at, use.ip)
  for (const [id, use] of taken.identities) store.oidc.touch(id, use.workspaceId, use.at)
  for (const [id, use] of taken.sessions) store.sessions.touch(id, use.userId, use.at)
}
