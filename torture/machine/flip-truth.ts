/** The data written before the damage, and the checks made after it. */
import { ask, isCutOff, must } from '../load/ask.ts'
import { createProject, createToken, password, register } from '../load/tenant.ts'

export type Truth = {
  readonly environmentId: string
  readonly reader: string
  readonly values: ReadonlyMap<string, string>
  /** First versions, by name. */
  readonly firsts: ReadonlyMap<string, string>
}
type Examined = { right: number; errors: number; lost: number; wrong: string[] }
type Listed = readonly { readonly name: string; readonly values: readonly { readonly value?: string }[] }[]

const root = '/v1/workspace/main/project/kept/secret'
/** No single bit flip turns one of these names into another. */
const keys = Array.from(
  { length: 40 },
  (_, at) => `K${Buffer.from(`secret ${at}`).toString('hex').toUpperCase()}_${at * 111}`,
)

export async function createTruth(url: string): Promise<Truth> {
  const session = await register(url)
  const project = await createProject(url, session, 'kept')
  const environmentId = project.environments[0]?.id ?? ''
  const firsts = new Map(keys.map((key, at) => [key, `first value ${at} ${'x'.repeat(at * 10)}`]))
  const secrets = [...firsts].map(([key, value]) => ({ key, value }))
  await must(url, 'POST', root, { token: session, body: { environments: [environmentId], secrets } })
  const values = new Map(firsts)
  for (const [at, key] of keys.slice(0, 10).entries()) {
    const value = `second value ${at}`
    await must(url, 'PUT', `${root}/${key}/value`, { token: session, body: { environmentId, value } })
    values.set(key, value)
  }
  return { environmentId, reader: await createToken(url, session, 'read'), values, firsts }
}

export async function examine(url: string, truth: Truth): Promise<Examined> {
  const found: Examined = { right: 0, errors: 0, lost: 0, wrong: [] }
  try {
    await examineList(url, truth, found)
    for (const [key, value] of truth.values) await examineOne(url, truth, key, '', value, found)
    for (const key of keys.slice(0, 5))
      await examineOne(url, truth, key, '/version/1', truth.firsts.get(key) ?? '', found)
    await examineRefusals(url, truth, found)
  } catch (error) {
    if (!isCutOff(error)) throw error
    found.wrong.push(`the service exited: ${String(error)}`)
  }
  return found
}

async function examineList(url: string, { environmentId, reader, values }: Truth, found: Examined): Promise<void> {
  const { status, text } = await ask(url, 'GET', `${root}?environmentId=${environmentId}`, { token: reader })
  if (status !== 200) {
    found.errors++
    return
  }
  const listed = JSON.parse(text) as Listed
  for (const { name, values: rows } of listed) {
    const expected = values.get(name)
    const shown = rows[0]?.value
    if (expected === undefined || shown === undefined) found.lost++
    else if (shown !== expected) found.wrong.push(`the list shows a wrong value for ${name}`)
    else found.right++
  }
  const names = new Set(listed.map(({ name }) => name))
  found.lost += [...values.keys()].filter((name) => !names.has(name)).length
}

async function examineOne(
  url: string,
  truth: Truth,
  key: string,
  path: string,
  value: string,
  found: Examined,
): Promise<void> {
  const { environmentId, reader } = truth
  const { status, text } = await ask(url, 'GET', `${root}/${key}${path}?environmentId=${environmentId}`, {
    token: reader,
  })
  if (status === 404) found.lost++
  else if (status !== 200) found.errors++
  else if (text.includes(JSON.stringify(value))) found.right++
  else found.wrong.push(`${key}${path} shows ${text}`)
}

/** Damage must never grant access. */
async function examineRefusals(url: string, { environmentId, reader }: Truth, found: Examined): Promise<void> {
  const body = { environmentId, value: 'x' }
  const asked = [
    ['a read token writes', await ask(url, 'PUT', `${root}/${keys[0]}/value`, { token: reader, body })],
    ['an unknown token reads', await ask(url, 'GET', root, { token: `cof_live_${'A'.repeat(36)}` })],
    ['a request without a credential reads', await ask(url, 'GET', root)],
    [
      'a wrong password signs in',
      await ask(url, 'POST', '/v1/auth/login', { body: { email: 'owner@example.com', password: `${password}x` } }),
    ],
  ] as const
  for (const [what, { status }] of asked) {
    if (status < 400) found.wrong.push(`${what}: ${status}`)
    else if (status >= 500) found.errors++
    else found.right++
  }
}
