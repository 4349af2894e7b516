/** A workspace for tests about members: invites, joins, and reads members and their audit entries. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { Member } from '@coffer/contract/member'
import type { Workspace } from '@coffer/contract/workspace'
import { expect } from 'vitest'
import { type Answer, addUser, password, type TestService, type TestUser } from './harness.ts'

export type MemberWorkspace = Awaited<ReturnType<typeof createMemberWorkspace>>
export type Person = TestUser & { readonly memberId: string }

/** Counts for each database, so that names do not depend on the tests before. */
const made = new Map<string, number>()

export async function createMemberWorkspace(service: TestService, owner: TestUser) {
  const number = (made.get(service.dataDir) ?? 0) + 1
  made.set(service.dataDir, number)
  const slug = `people-${number}`
  const created = await service.call<Workspace>('POST', '/v1/workspace', {
    token: owner.session,
    body: { name: slug, slug },
  })
  expect(created.status, created.text).toBe(201)
  const root = `/v1/workspace/${slug}`
  let people = 0

  const ask = <Body = { message: string }>(
    method: string,
    path: string,
    body?: unknown,
    token = owner.session,
  ): Promise<Answer<Body>> => service.call<Body>(method, root + path, { token, ...(body !== undefined && { body }) })

  const invite = (body: Record<string, unknown> = {}, token = owner.session) =>
    ask<IssuedInvite & { message: string }>(
      'POST',
      '/rbac',
      { email: newAddress(), role: 'developer', scope: { all: true }, ...body },
      token,
    )

  const newAddress = () => `person-${++people}@${slug}.example.com`

  async function mustInvite(body: Record<string, unknown> = {}): Promise<IssuedInvite> {
    const answer = await invite(body)
    expect(answer.status, answer.text).toBe(201)
    return answer.body
  }

  const answer = (what: 'accept' | 'decline', session: string, inviteToken: string) =>
    service.call<{ slug: string; message: string }>('POST', `/v1/workspace/invite/${what}`, {
      token: session,
      body: { token: inviteToken },
    })

  return {
    id: created.body.id,
    slug,
    root,
    ask,
    invite,
    mustInvite,
    newAddress,
    accept: (session: string, token: string) => answer('accept', session, token),
    decline: (session: string, token: string) => answer('decline', session, token),
    register: (email: string, inviteToken?: string) =>
      service.call<SignedIn & { message: string }>('POST', '/v1/auth/register', {
        body: { email, name: 'New', password, ...(inviteToken !== undefined && { inviteToken }) },
      }),
    /** A user who was invited and has accepted. */
    async join(body: Record<string, unknown> = {}): Promise<Person> {
      const email = newAddress()
      const user = await addUser(service, email)
      const { id, inviteToken } = await mustInvite({ email, ...body })
      const accepted = await answer('accept', user.session, inviteToken)
      expect(accepted, accepted.text).toMatchObject({ status: 200, body: { slug } })
      return { ...user, memberId: id }
    },
    async members(): Promise<Member[]> {
      const { status, body, text } = await ask<Member[]>('GET', '/rbac')
      expect(status, text).toBe(200)
      return body
    },
    async row(id: string): Promise<Member | undefined> {
      return (await ask<Member[]>('GET', '/rbac')).body.find((row) => row.id === id)
    },
    /** Audit entries of an entity, oldest first. */
    async trail(entity: string): Promise<AuditEntry[]> {
      const { body } = await ask<AuditEntry[]>('GET', `/audit?limit=200&entity=${entity}`)
      return body.reverse()
    },
  }
}
