/** What the pages tell their reader to type works: every example is run as it stands, one after the other. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createProject, createToken, registerOwner, startService } from '../../../test/harness.ts'

const docs = join(import.meta.dirname, '../../../docs')

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

type Page = {
  readonly name: string
  readonly minExamples: number
  /** The variables that the page speaks of. */
  readonly variables: readonly string[]
}
const pages: readonly Page[] = [
  {
    name: 'secrets.md',
    minExamples: 16,
    variables: ['COFFER', 'P', 'TOKEN', 'SESSION', 'MACHINE_TOKEN', 'DEVELOPMENT', 'STAGING'],
  },
  { name: 'session.md', minExamples: 10, variables: ['COFFER', 'SESSION', 'DEVELOPMENT'] },
]

test.each(pages)('every curl example of docs/$name succeeds, in the order of the page', async (page) => {
  const text = await readFile(join(docs, page.name), 'utf8')
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')
  const examples = blocks.filter((block) => /\bcurl /.test(block))
  const service = await startService()
  const folder = await mkdtemp(join(tmpdir(), 'coffer-docs-'))
  try {
    const { session } = await registerOwner(service)
    const { environments } = await createProject(service, session, 'api')
    const idOf = (name: string) => environments.find((environment) => environment.name === name)?.id ?? ''
    const scope = { environments: [idOf('staging')] }
    const all: Record<string, string> = {
      COFFER: service.url,
      P: `${service.url}/v1/workspace/main/project/api`,
      TOKEN: (await createToken(service, session)).token,
      SESSION: session,
      MACHINE_TOKEN: (await createToken(service, session, { permission: 'read', scope })).token,
      DEVELOPMENT: idOf('development'),
      STAGING: idOf('staging'),
    }
    const variables = Object.fromEntries(page.variables.map((name) => [name, all[name] ?? '']))
    for (const name of page.variables) {
      expect(text, `the page tells what ${name} is`).toMatch(new RegExp(`^${name}=|\`${name}\``, 'm'))
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
    }
    expect(examples.length).toBeGreaterThanOrEqual(page.minExamples)
    if (page.name === 'secrets.md') {
      expect(await readFile(join(folder, 'development.env'), 'utf8')).toContain('SMTP_HOST=smtp.example.com\n')
    }
  } finally {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
