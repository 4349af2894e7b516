/** Two tenants of one service with the same resources: workspace main, and workspace beta of somebody else. */
import {
  addUser,
  createProject,
  createToken,
  exchange,
  password,
  registerOwner,
  type TestService,
  type TestUser,
} from './harness.ts'
import { createWorld, type World } from './world.ts'

export type Tenant = {
  readonly world: World
  readonly owner: TestUser
  readonly tokenId: string
  readonly adminTokenId: string
  readonly credentials: Readonly<Record<CredentialName, string>>
}
export const credentialNames = [
  'session',
  'member session',
  'read token',
  'read-write token',
  'read JWT',
  'read-write JWT',
] as const
export type CredentialName = (typeof credentialNames)[number]

/** Only tenant A has the project only-a. */
export async function createTenants(service: TestService): Promise<{ a: Tenant; b: Tenant }> {
  const a = await createTenant(service, await registerOwner(service), 'main')
  const other = await addUser(service, 'other@example.com')
  await service.call('POST', '/v1/workspace', { token: other.session, body: { name: 'Beta', slug: 'beta' } })
  const b = await createTenant(service, other, 'beta')
  await createProject(service, a.owner.session, 'only-a')
  return { a, b }
}

async function createTenant(service: TestService, owner: TestUser, slug: string): Promise<Tenant> {
  const { body } = await service.call<{ id: string }>('GET', `/v1/workspace/${slug}`, { token: owner.session })
  const member = await addUser(service, `member@${slug}.example.com`, { workspaceId: body.id, role: 'member' })
  const admin = await addUser(service, `admin@${slug}.example.com`, { workspaceId: body.id, role: 'admin' })
  const world = await createWorld(service, owner, member.memberId ?? '', slug)
  const read = await createToken(service, owner.session, { permission: 'read' }, slug)
  const mark = { mayAdminister: true, expiresIn: '24h', password } as const
  const write = await createToken(service, owner.session, mark, slug)
  const adminToken = await createToken(service, admin.session, {}, slug)
  const credentials = {
    session: owner.session,
    'member session': member.session,
    'read token': read.token,
    'read-write token': write.token,
    'read JWT': await exchange(service, read.token),
    'read-write JWT': await exchange(service, write.token),
  }
  return { world, owner, tokenId: write.id, adminTokenId: adminToken.id, credentials }
}
