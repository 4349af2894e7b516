/** Snippets for applications: with the address and names of this installation, and they work as they are. */
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../test/secret-project.ts'

const root = join(import.meta.dirname, '../../../..')
const run = promisify(execFile)
let service: TestService
let session: string
let project: SecretProject
let folder: string

beforeAll(async () => {
  service = await startService()
  session = (await registerOwner(service)).session
  project = await createSecretProject(service, session)
  await project.must('POST', '/environment', { name: 'blue green' })
  await project.set('blue green', { DATABASE_URL: 'postgres://blue.example.com' })
  folder = await mkdtemp(join(tmpdir(), 'coffer-use-'))
  const program = join(folder, 'coffer')
  await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'cli/start.js')}' "$@"\n`)
  await chmod(program, 0o755)
})
afterAll(async () => {
  await service.stop()
  await rm(folder, { recursive: true, force: true })
})

/** As the person of the session, who would otherwise have run `coffer login` first. */
async function inShell(script: string, cwd = folder): Promise<string> {
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, COFFER_TOKEN: session }
  const { stdout } = await run('sh', ['-euc', script], { cwd, env: { ...env, COFFER_URL: service.url } })
  return stdout.trim()
}

test('the snippets of the command line, of Docker and of Node read the environment that was chosen', async () => {
  const page = await openPage(service, { session, path: `/main/${project.slug}` })
  await page.getByRole('button', { name: 'Use in app' }).click()
  await page.getByLabel('Environment', { exact: true }).selectOption('blue green')
  const snippet = async (label: string) => (await page.getByRole('region', { name: label }).textContent()) ?? ''
  const choose = (way: string) => page.getByLabel('Where it runs').selectOption(way)

  const [login, ...commands] = (await snippet('Run with secrets')).split('\n')
  expect(login).toBe(`coffer login ${service.url}`)
  const script = commands.join('\n').replace('npm start', 'printenv DATABASE_URL')
  expect(await inShell(script)).toContain('postgres://blue.example.com')
  await expectAccessible(page)

  await choose('Docker')
  await inShell(await snippet('Make a token'))
  const variables = [...(await snippet('Start the container')).matchAll(/-e (COFFER_\w+=(?:'[^']*'|\S+))/g)]
  const settings = variables.map(([, setting = '']) => setting.replace('/run/secrets/', `${folder}/`)).join(' ')
  expect(await inShell(`unset COFFER_TOKEN; ${settings} coffer run -- printenv DATABASE_URL`)).toBe(
    'postgres://blue.example.com',
  )

  await choose('Node')
  const code = `${await snippet('Code')}\nconsole.log(databaseUrl)`
  const program = `${await snippet('Settings')}\n'${process.execPath}' --input-type=module -e "$CODE"`
  expect(await inShell(`CODE=$(cat <<'END'\n${code}\nEND\n)\n${program}`, root)).toBe('postgres://blue.example.com')

  await choose('GitHub Actions')
  const workflow = await snippet('Workflow')
  expect(workflow).toContain(`url: ${service.url}\n`)
  expect(workflow).toContain(`project: ${project.slug}\n`)
  expect(workflow).toContain('environment: "blue green"\n')
})
