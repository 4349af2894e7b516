/** Creates shares in a separate project, and reads them with nothing but the link. */
import { randomBytes } from 'node:crypto'
import type { IssuedShare, NewShare, OpenedShare, Share, ShareKey, ShareMeta, ShareView } from '@coffer/contract/share'
import { type ShareContent, seal, unlock } from '@coffer/sdk/share-envelope'
import { expect } from 'vitest'
import type { Answer, TestService } from './harness.ts'
import { createSecretProject } from './secret-project.ts'

type Caller = Pick<TestService, 'call'>
type Headers = Record<string, string>

export const newClaim = () => randomBytes(16).toString('base64url')

export function readers({ call }: Caller) {
  return {
    meta: (token: string, headers: Headers = {}) => call<ShareMeta>('GET', `/v1/share/${token}/meta`, { headers }),
    view: (token: string, body: ShareKey = {}, headers: Headers = {}): Promise<Answer<OpenedShare>> =>
      call<OpenedShare>('POST', `/v1/share/${token}/view`, { body, headers }),
  }
}

export async function createShareProject(service: TestService, session: string) {
  const project = await createSecretProject(service, session)
  const make = (body: Partial<NewShare>, token = session) =>
    project.must<IssuedShare>('POST', '/secret-share', { expiresIn: 3_600, ...body }, token)
  const list = (token = session) => project.must<Share[]>('GET', '/secret-share', undefined, token)
  return {
    ...project,
    ...readers(service),
    make,
    list,
    async find(id: string): Promise<Share> {
      const share = (await list()).find((candidate) => candidate.id === id)
      if (!share) throw new Error('there is no such share')
      return share
    },
    revoke: (id: string) => project.must('DELETE', `/secret-share/${id}`),
    views: (id: string) => project.must<ShareView[]>('GET', `/secret-share/${id}/view`),
    /** Encrypts on the client: the service gets the envelope, the reader the link. */
    async makeSealed(content: ShareContent, passphrase?: string, body: Partial<NewShare> = {}) {
      const { envelope, fragment } = await seal(content, passphrase)
      const { open, ...key } = await unlock(fragment, passphrase)
      return { ...(await make({ envelope, ...body })), fragment, key, open }
    },
  }
}

export type ShareProject = Awaited<ReturnType<typeof createShareProject>>

const volatileHeaders = new Set(['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset'])

/** Everything by which a caller can distinguish two responses. */
export function visible({ status, headers, text }: Answer): string {
  const shown = [...headers].map(([name, value]) => `${name}: ${volatileHeaders.has(name) ? '' : value}`)
  return [status, ...shown, text].join('\n')
}

export function expectGone(answer: Answer, what = ''): void {
  expect({ status: answer.status, text: answer.text }, what).toEqual({ status: 404, text: '{"message":"Not found."}' })
}
