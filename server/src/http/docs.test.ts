/** The examples in docs/ work: every one is run as it is written, in the order of its page. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { WriteResults } from '@coffer/contract/secret'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { requirePrograms } from '../../../test/debian-package.ts'
import {
  addUser,
  createProject,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
} from '../../../test/harness.ts'
import { type Claims, loopbackAllowed, startIssuer } from '../../../test/issuer.ts'
import { startNode } from '../../../test/program.ts'
import { pushDue } from '../../../test/sync.ts'
import { fakeGitLab } from '../../../test/vendor/fake/gitlab-ci.ts'
import { startFake } from '../../../test/vendor/fake.ts'

await requirePrograms('curl')

const docs = join(import.meta.dirname, '../../../docs')

const blocksOf = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^ *\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\`$`, 'gm'))].map((match) => match[1] ?? '')

type Finished = { readonly code: number | null; readonly statuses: readonly number[]; readonly output: string }

/** Makes each `curl` of an example also write its status to a file. */
const reporting =
  'curl() { result=0; command curl -D headers "$@" || result=$?; head -n 1 headers >> statuses; return $result; }'

function runShell(script: string, folder: string, variables: Record<string, string>): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const env = { PATH: process.env.PATH ?? '', ...variables }
    const shell = spawn('/bin/sh', ['-eu', '-c', `${reporting}\n${script}`], { cwd: folder, env })
    const output: string[] = []
    shell.stdout.on('data', (chunk) => output.push(String(chunk)))
    shell.stderr.on('data', (chunk) => output.push(String(chunk)))
    shell.on('error', reject)
    shell.on('close', async (code) => {
      const lines = await readFile(join(folder, 'statuses'), 'utf8').catch(() => '')
      await writeFile(join(folder, 'statuses'), '')
      const statuses = [...lines.matchAll(/^HTTP\/\S+ (\d{3})/gm)].map((match) => Number(match[1]))
      resolve({ code, statuses, output: output.join('') })
    })
  })
}

/**
 * Runs every example of a page that calls the service; returns their number. `after` gets the output of each example, and
 * may set variables for later ones.
 */
async function runPage(
  name: string,
  folder: string,
  variables: Record<string, string>,
  after: (output: string) => Promise<void> = async () => undefined,
): Promise<number> {
  const text = await readFile(join(docs, name), 'utf8')
  const examples = blocksOf(text, 'sh').filter((block) => /\bcurl /.test(block))
  for (const name of Object.keys(variables)) {
    expect(text, `the page explains ${name}`).toMatch(new RegExp(`^${name}=|\`${name}\``, 'm'))
  }
  for (const example of examples) {
    const { code, statuses, output } = await runShell(example, folder, variables)
    const where = `${example}\n→ ${statuses.join(', ')} ${output}`
    expect(code, where).toBe(0)
    expect(statuses, where).toHaveLength(example.match(/\bcurl /g)?.length ?? 0)
    for (const [index, status] of statuses.entries()) {
      const isRepeated = example.includes('If-None-Match') && index === statuses.length - 1
      if (isRepeated) expect(status, where).toBe(304)
      else expect([200, 201], where).toContain(status)
    }
    await after(output)
  }
  return examples.length
}

let service: TestService
let folder: string
beforeEach(async () => {
  // The tests trigger syncs themselves.
  service = await startService({ ...loopbackAllowed, COFFER_SYNC: 'off' })
  folder = await mkdtemp(join(tmpdir(), 'coffer-docs-'))
})
afterEach(async () => {
  await service.stop()
  await rm(folder, { recursive: true, force: true })
})

test('every curl example of docs/secrets.md succeeds, in the order of the page', async () => {
  const { session } = await registerOwner(service)
  const { environments } = await createProject(service, session, 'api')
  const idOf = (name: string) => environments.find((environment) => environment.name === name)?.id ?? ''
  const scope = { environments: [idOf('staging')] }
  const count = await runPage('secrets.md', folder, {
    COFFER: service.url,
    P: `${service.url}/v1/workspace/main/project/api`,
    TOKEN: (await createToken(service, session)).token,
    SESSION: session,
    MACHINE_TOKEN: (await createToken(service, session, { permission: 'read', scope })).token,
    DEVELOPMENT: idOf('development'),
    STAGING: idOf('staging'),
  })
  expect(count).toBeGreaterThan(15)
  expect(await readFile(join(folder, 'development.env'), 'utf8')).toContain('SMTP_HOST=smtp.example.com\n')
})

test('every curl example of docs/access.md succeeds, in the order of the page', async () => {
  const { session } = await registerOwner(service)
  const { id, environments } = await createProject(service, session, 'api')
  const main = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
  const joined = (email: string) => addUser(service, email, { workspaceId: main.body.id, role: 'developer' })
  const invite = async (email: string) => {
    const body = { email, role: 'member', scope: { all: true } }
    const { body: issued } = await service.call<IssuedInvite>('POST', '/v1/workspace/main/rbac', {
      token: session,
      body,
    })
    return issued
  }
  const token = await createToken(service, session)
  const count = await runPage('access.md', folder, {
    COFFER: service.url,
    W: `${service.url}/v1/workspace/main`,
    PASSWORD: password,
    SESSION: session,
    PROJECT: id,
    STAGING: environments[1]?.id ?? '',
    PRODUCTION: environments[2]?.id ?? '',
    MEMBER: (await joined('leaver@example.com')).memberId ?? '',
    HEIR: (await joined('heir@example.com')).memberId ?? '',
    INVITE: (await invite('slow@example.com')).id,
    INVITED_SESSION: (await addUser(service, 'invited@example.com')).session,
    INVITE_TOKEN: (await invite('invited@example.com')).inviteToken,
    NEW_INVITE_TOKEN: (await invite('new@example.com')).inviteToken,
    TOKEN: token.token,
    TOKEN_ID: token.id,
  })
  expect(count).toBeGreaterThan(10)
})

test('every curl example of docs/session.md succeeds, in the order of the page', async () => {
  const { email, session } = await registerOwner(service)
  const { environments } = await createProject(service, session, 'api')
  const development = environments.find(({ name }) => name === 'development')?.id ?? ''
  const account = { EMAIL: email, PASSWORD: password }
  const variables = { COFFER: service.url, ...account, SESSION: session, DEVELOPMENT: development }
  const count = await runPage('session.md', folder, variables)
  expect(count).toBeGreaterThanOrEqual(10)
})

test('every example of docs/oidc.md succeeds, for the admin and for the platforms', async () => {
  const text = await readFile(join(docs, 'oidc.md'), 'utf8')
  // One issuer for all the platforms of the page, and the token endpoint of GitHub.
  const issuer = await startIssuer(() => service.app.services.now())
  try {
    const { session } = await registerOwner(service)
    const { environments } = await createProject(service, session, 'api')
    const production = environments.find(({ name }) => name === 'production')?.id ?? ''
    const secrets = [{ key: 'DATABASE_URL', value: 'postgres://db.example.com' }]
    const body = { environments: [production], secrets }
    await service.call('POST', '/v1/workspace/main/project/api/secret', { token: session, body })
    const aud = 'https://coffer.example.com'
    const github = { aud, repository_id: '456789', repository_owner_id: '123456', ref: 'refs/heads/main' }
    issuer.answer = (request, response) => {
      if (request.url !== `/token?id=1&audience=${aud}` || request.headers.authorization !== 'Bearer of the run') {
        return false
      }
      issuer.sign(github).then((value) => response.end(JSON.stringify({ count: 1, value })))
      return true
    }
    const served = (example: string) => example.replaceAll('https://token.actions.githubusercontent.com', issuer.url)
    const run = async (example: string, variables: Record<string, string>) => {
      const { code, statuses, output } = await runShell(served(example), folder, variables)
      const where = `${example}\n→ ${statuses.join(', ')} ${output}`
      expect(code, where).toBe(0)
      expect(statuses.length, where).toBeGreaterThan(0)
      for (const status of statuses) expect([200, 201], where).toContain(status)
      return output
    }
    const fetchedBy = async (script: string, variables: Record<string, string>) => {
      await run(script, { COFFER: service.url, ...variables })
      expect(await readFile(join(folder, '.env'), 'utf8')).toContain('DATABASE_URL=postgres://db.example.com\n')
      await rm(join(folder, '.env'))
    }

    const [trust = '', ...examples] = blocksOf(text, 'sh').filter((block) => /\bcurl /.test(block))
    const admin = { COFFER: service.url, TOKEN: session, ENVIRONMENT: production }
    const { id: IDENTITY } = JSON.parse(await run(trust, admin))
    const platforms = blocksOf(text, 'yaml').map((block) => parseAllDocuments(block)[0]?.toJS())
    const [workflow, pipeline, pod] = platforms
    await fetchedBy(workflow.jobs.deploy.steps[0].run, {
      ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/token?id=1`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'of the run',
    })

    const trustPlatform = async (claims: Claims) => {
      const identity = { issuer: issuer.url, audience: aud, subject: claims.sub, permission: 'read' }
      const scope = { environments: [production] }
      const made = { token: session, body: { name: 'platform', ...identity, scope } }
      expect((await service.call('POST', '/v1/workspace/main/oidc', made)).status).toBe(201)
      return issuer.sign({ aud, ...claims })
    }
    const gitlab = 'project_path:my-group/my-project:ref_type:branch:ref:main'
    expect(text).toContain(gitlab)
    await fetchedBy(pipeline.deploy.script.join('\n'), { COFFER_ID_TOKEN: await trustPlatform({ sub: gitlab }) })
    const account = `system:serviceaccount:${pod.metadata.namespace}:${pod.spec.serviceAccountName}`
    expect(text).toContain(account)
    await writeFile(join(folder, 'token'), await trustPlatform({ sub: account }))
    const [init] = pod.spec.initContainers
    await fetchedBy(init.args[0], { TOKEN_FILE: join(folder, 'token'), SECRETS_FILE: join(folder, '.env') })

    const ID_TOKEN = await issuer.sign(github)
    for (const example of examples) {
      const output = await run(example, { ...admin, IDENTITY, ID_TOKEN })
      if (example.includes('/test')) expect(JSON.parse(output)).toMatchObject({ ok: true })
    }
    expect(examples.length).toBe(5)
  } finally {
    await issuer.stop()
  }
})

test('every example of docs/sharing.md succeeds, with curl and with the library', async () => {
  const { session } = await registerOwner(service)
  const { environments } = await createProject(service, session, 'api')
  const { body } = await service.call<WriteResults>('POST', '/v1/workspace/main/project/api/secret', {
    token: session,
    body: { environments: ['development'], secrets: [{ key: 'DATABASE_URL', value: 'postgres://db.example.com' }] },
  })
  const variables = {
    COFFER: service.url,
    TOKEN: (await createToken(service, session)).token,
    P: `${service.url}/v1/workspace/main/project/api`,
    SECRET: body.results[0]?.id ?? '',
    DEVELOPMENT: environments[0]?.id ?? '',
  }
  expect(await runPage('sharing.md', folder, variables)).toBeGreaterThan(5)
  const [script = ''] = blocksOf(await readFile(join(docs, 'sharing.md'), 'utf8'), 'js')
  const program = startNode(['--input-type=module', '--eval', script], variables)
  expect(await program.ended).toMatchObject({ code: 0, out: "{ t: 'text', v: 'for your eyes only' }\n" })
})

test('every curl example of docs/sync.md succeeds, with the described effect at GitLab', async () => {
  const { session } = await registerOwner(service)
  const { id, environments } = await createProject(service, session, 'api')
  const secrets = [
    { key: 'DATABASE_URL', value: 'postgres://db.example.com' },
    { key: 'PORT_LOCAL', value: '8080' },
  ]
  const body = { environments: ['production'], secrets }
  await service.call('POST', '/v1/workspace/main/project/api/secret', { token: session, body })
  const fake = fakeGitLab()
  fake.tamper('SOMEBODY_ELSES', 'untouched')
  const gitlab = await startFake(fake, { plain: true })
  const variables: Record<string, string> = {
    COFFER: service.url,
    TOKEN: (await createToken(service, session)).token,
    P: `${service.url}/v1/workspace/main/project/api`,
    PROJECT: id,
    PRODUCTION: environments.find(({ name }) => name === 'production')?.id ?? '',
    GITLAB: gitlab.url,
    GITLAB_TOKEN: fake.credential.token ?? '',
    SYNC: '',
    RUN: '',
  }
  const seen: string[] = []
  try {
    const count = await runPage('sync.md', folder, variables, async (output) => {
      variables.SYNC ||= /"syncConfigId":"([^"]+)"/.exec(output)?.[1] ?? ''
      variables.RUN ||= /^\[\{"id":"([^"]+)","trigger":/.exec(output)?.[1] ?? ''
      await pushDue({ service })
      seen.push([...fake.state().keys()].sort().join())
    })
    expect(count).toBeGreaterThan(12)
    // Nothing is pushed before the review, all but the excluded secret after it, and the removal restores the first state.
    expect([...new Set(seen)]).toEqual(['SOMEBODY_ELSES', 'DATABASE_URL,SOMEBODY_ELSES'])
    expect(Object.fromEntries(fake.state())).toEqual({ SOMEBODY_ELSES: 'untouched' })
    expect(fake.violations).toEqual([])
  } finally {
    await gitlab.close()
  }
})
