/** References between secrets resolve only within a tenant, and only within the scope of the caller. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createToken,
  exchange,
  offline,
  startService,
  type TestProject,
  type TestService,
} from '../../../test/harness.ts'
import { createTenants, credentialNames, type Tenant } from '../../../test/tenant.ts'
import { scopeOf } from '../../../test/world.ts'

let service: TestService
let a: Tenant
let b: Tenant

beforeAll(async () => {
  service = await startService({ COFFER_SYNC: 'off' }, offline)
  ;({ a, b } = await createTenants(service))
})
afterAll(() => service.stop())

/** A resolved value and its unresolved references, as read with this credential. */
async function resolve(token: string, path: string): Promise<{ value?: string; unresolved?: string[] }> {
  const { status, text, body } = await service.call<Secret>('GET', `${path}&resolve=true`, { token })
  expect(status, text).toBe(200)
  return { ...body.values[0] }
}

async function write(tenant: Tenant, environmentId: string, secrets: Record<string, string>): Promise<void> {
  const { status, text } = await service.call('POST', `/v1/workspace/${tenant.world.slug}/project/right/secret`, {
    token: tenant.owner.session,
    body: {
      environments: [environmentId],
      secrets: Object.entries(secrets).map(([key, value]) => ({ key, value })),
      mode: 'upsert',
    },
  })
  expect(status, text).toBe(201)
}

test('a reference never resolves to another tenant, by any name', async () => {
  const { session } = a.owner
  const path = '/v1/workspace/main/project/only-a'
  const { body: project } = await service.call<TestProject>('GET', path, { token: session })
  const [first] = project.environments
  if (!first) throw new Error('a project begins with environments')
  const canary = 'what only tenant A may know'
  const body = { environments: [first.id], secrets: [{ key: 'KEY', value: canary }] }
  expect((await service.call('POST', `${path}/secret`, { token: session, body })).status).toBe(201)
  const texts = [
    `\${only-a.${first.name}.KEY}`,
    `\${${project.id}.${first.name}.KEY}`,
    `\${${project.id}.${first.id}.KEY}`,
    `\${only-a.${first.id}.KEY}`,
    `\${${first.id}.KEY}`,
    `\${main.only-a.${first.name}.KEY}`,
  ]
  const { right } = b.world.environments
  await write(b, right, Object.fromEntries(texts.map((text, index) => [`FOREIGN_${index}`, text])))
  for (const credential of credentialNames) {
    for (const [index, text] of texts.entries()) {
      const at = `/v1/workspace/beta/project/right/secret/FOREIGN_${index}?environmentId=${right}`
      const { value, unresolved } = await resolve(b.credentials[credential], at)
      expect(value, text).toBe(text)
      // Only the first text fits the grammar and is reported; the others are not references.
      if (index === 0) expect(unresolved).toEqual([text.slice(2, -1)])
    }
    const all = `/v1/workspace/beta/project/right/secret`
    for (const query of ['?resolve=true', '?resolve=true&onUnresolved=empty', '/export?format=yaml&resolve=true']) {
      const separator = `${query}&environmentId=${right}`
      const { status, text } = await service.call('GET', all + separator, { token: b.credentials[credential] })
      expect(status, text).toBe(200)
      expect(text).not.toContain(canary)
    }
  }
})

test('the same reference in two tenants resolves to the value of each', async () => {
  for (const tenant of [a, b]) {
    const { right, wrong } = tenant.world.environments
    for (const credential of credentialNames) {
      const at = `/v1/workspace/${tenant.world.slug}/project/right/secret/REFERRING?environmentId=${right}`
      const { value, unresolved } = await resolve(tenant.credentials[credential], at)
      expect(value).toBe(`shared in ${tenant.world.environments.sibling} and shared in ${wrong}`)
      expect(unresolved).toBeUndefined()
    }
  }
})

test('a reference outside the caller’s scope stays unresolved and is reported, at every hop', async () => {
  const { world, owner } = b
  const { right, sibling } = world.environments
  const [rightName, siblingName] = [world.environmentNames.get(right), world.environmentNames.get(sibling)]
  await write(b, right, { TARGET: 'inner', NEAR: `\${${rightName}.TARGET}`, HOP: `\${${'REFERRING'}}` })
  await write(b, sibling, { BACK: `\${${rightName}.TARGET}` })
  await write(b, right, { THERE_AND_BACK: `\${${siblingName}.BACK}` })
  const list = `/v1/workspace/beta/project/right/secret`
  const scope = scopeOf(world, 'right environment')
  const narrow = (await createToken(service, owner.session, { scope, permission: 'read' }, 'beta')).token
  const partly = {
    ...scope,
    environments: [right, sibling],
  }
  const half = (await createToken(service, owner.session, { scope: partly }, 'beta')).token
  // Wider credentials first: their cached responses must not be served to narrower ones.
  for (const token of [owner.session, half, narrow, await exchange(service, narrow), owner.session, half, narrow]) {
    const isNarrow = token !== owner.session && token !== half
    const read = (key: string) => resolve(token, `${list}/${key}?environmentId=${right}`)
    expect((await read('NEAR')).value).toBe('inner')
    const references = [`\${${siblingName}.SHARED}`, `\${wrong.${rightName}.SHARED}`]
    const values = [`shared in ${sibling}`, `shared in ${world.environments.wrong}`]
    const isOpen = [!isNarrow, token === owner.session]
    const expected = references.map((reference, index) => (isOpen[index] ? values[index] : reference)).join(' and ')
    const named = references.filter((_reference, index) => !isOpen[index]).map((reference) => reference.slice(2, -1))
    for (const key of ['REFERRING', 'HOP']) {
      const { value, unresolved } = await read(key)
      expect(value, key).toBe(expected)
      expect(unresolved ?? [], key).toEqual(named)
    }
    expect((await read('THERE_AND_BACK')).value).toBe(isNarrow ? `\${${siblingName}.BACK}` : 'inner')
    const strict = await service.call(
      'GET',
      `${list}/REFERRING?environmentId=${right}&resolve=true&onUnresolved=error`,
      {
        token,
      },
    )
    expect(strict.status).toBe(token === owner.session ? 200 : 409)
    expect(strict.status === 409 && strict.text.includes('shared in')).toBe(false)
    const empty = await service.call(
      'GET',
      `${list}/REFERRING?environmentId=${right}&resolve=true&onUnresolved=empty`,
      {
        token,
      },
    )
    expect(values.filter((value) => empty.text.includes(value))).toEqual(
      values.filter((_value, index) => isOpen[index]),
    )
  }
})
