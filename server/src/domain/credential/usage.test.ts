import { expect, test } from 'vitest'
import { createUsage } from './usage.ts'

test('a use is pending until it is written, and a newer use replaces it', () => {
  const usage = createUsage()
  const pending = () => [
    usage.pendingToken('token'),
    usage.pendingIdentity('identity'),
    usage.pendingSession('session'),
  ]
  const note = (at: number) => {
    usage.noteToken('token', 'workspace', at, '192.0.2.1')
    usage.noteIdentity('identity', 'workspace', at)
    usage.noteSession('session', 'user', at)
  }
  const at = (at: number) => [
    { workspaceId: 'workspace', at, ip: '192.0.2.1' },
    { workspaceId: 'workspace', at },
    { userId: 'user', at },
  ]
  note(1)
  expect(pending()).toEqual(at(1))
  const { tokens, identities, sessions } = usage.take()
  expect([...tokens.keys(), ...identities.keys(), ...sessions.keys()]).toEqual(['token', 'identity', 'session'])
  // Still pending while it is being written.
  expect(pending()).toEqual(at(1))
  note(2)
  expect(pending()).toEqual(at(2))
  expect(tokens.get('token')?.at).toBe(1)
  usage.take()
  // Once written, a use is only in the store.
  usage.take()
  expect(pending()).toEqual([undefined, undefined, undefined])
})
