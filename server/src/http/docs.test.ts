/** What the documentation tells its reader to type works: every example is run as it stands, one after the other. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { WriteResults } from '@coffer/contract/secret'
import { expect, test } from 'vitest'
import { createProject, createToken, registerOwner, startService } from '../../../test/harness.ts'
import { startNode } from '../../../test/process.ts'

const root = join(import.meta.dirname, '../../..')
const page = (name: string) => readFile(join(root, 'docs', name), 'utf8')

const blocksOf = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map((match) => match[1] ?? '')

type Finished = { readonly code: number | null; readonly statuses: readonly number[]; readonly output: string }

/** Each `curl` in the example also writes its status to a file, whatever else it does. */
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

function expectExplained(text: string, variables: Record<string, string>): void {
  for (const name of Object.keys(variables)) {
    expect(text, `the page tells what ${name} is`).toMatch(new RegExp(`^${name}=|\`${name}\``, 'm'))
  }
}

async function expectSuccess(example: string, folder: string, variables: Record<string, string>): Promise<void> {
  const { code, statuses, output } = await runShell(example, folder, variables)
  const where = `${example}\n→ ${statuses.join(', ')} ${output}`
  expect(code, where).toBe(0)
  expect(statuses, where).toHaveLength(example.match(/\bcurl /g)?.length ?? 0)
  for (const [index, status] of statuses.entries()) {
    const isRepeated = example.includes('If-None-Match') && index === statuses.length - 1
    if (isRepeated) expect(status, where).toBe(304)
    else expect([200, 201], where).toContain(status)
  }
}

test('every curl example of docs/secrets.md succeeds, in the order of the page', async () => {
  const text = await page('secrets.md')
  const examples = blocksOf(text, 'sh').filter((block) => /\bcurl /.test(block))
  const service = await startService()
  const folder = await mkdtemp(join(tmpdir(), 'coffer-docs-'))
  try {
    const { session } = await registerOwner(service)
    const { environments } = await createProject(service, session, 'api')
    const idOf = (name: string) => environments.find((environment) => environment.name === name)?.id ?? ''
    const scope = { environments: [idOf('staging')] }
    const variables = {
      COFFER: service.url,
      P: `${service.url}/v1/workspace/main/project/api`,
      TOKEN: (await createToken(service, session)).token,
      SESSION: session,
      MACHINE_TOKEN: (await createToken(service, session, { permission: 'read', scope })).token,
      DEVELOPMENT: idOf('development'),
      STAGING: idOf('staging'),
    }
    expectExplained(text, variables)
    for (const example of examples) await expectSuccess(example, folder, variables)
    expect(examples.length).toBeGreaterThan(15)
    expect(await readFile(join(folder, 'development.env'), 'utf8')).toContain('SMTP_HOST=smtp.example.com\n')
  } finally {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

test('every example of docs/sharing.md succeeds, by curl and by the library', async () => {
  const text = await page('sharing.md')
  const examples = blocksOf(text, 'sh').filter((block) => /\bcurl /.test(block))
  const [script = ''] = blocksOf(text, 'js')
  const service = await startService()
  const folder = await mkdtemp(join(tmpdir(), 'coffer-docs-'))
  try {
    const { session } = await registerOwner(service)
    const { environments } = await createProject(service, session, 'api')
    const [development] = environments
    const { body } = await service.call<WriteResults>('POST', '/v1/workspace/main/project/api/secret', {
      token: session,
      body: { environments: ['development'], secrets: [{ key: 'DATABASE_URL', value: 'postgres://db.example.com' }] },
    })
    const variables = {
      COFFER: service.url,
      TOKEN: (await createToken(service, session)).token,
      P: `${service.url}/v1/workspace/main/project/api`,
      SECRET: body.results[0]?.id ?? '',
      DEVELOPMENT: development?.id ?? '',
    }
    expectExplained(text, variables)
    for (const example of examples) await expectSuccess(example, folder, variables)
    expect(examples.length).toBeGreaterThan(5)
    const program = startNode(['--input-type=module', '--eval', script], variables)
    expect(await program.ended).toMatchObject({ code: 0, out: "{ t: 'text', v: 'for your eyes only' }\n" })
  } finally {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
