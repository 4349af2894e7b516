/** `coffer login` as people use it: the program waits at the terminal, and the page in the browser decides. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { openPage } from '../../../test/browser.ts'
import { openShell, type Shell } from '../../../test/cli.ts'
import { password, registerOwner, startService, type TestService } from '../../../test/harness.ts'
import { until } from '../../../test/wait.ts'

/** A service whose public address is that of a proxy in front of it, so that its links lead somewhere. */
async function startPublicService(): Promise<TestService> {
  let port = 0
  const proxy = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('error', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const address = proxy.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  const service = await startService({ COFFER_PUBLIC_URL: url })
  port = Number(new URL(service.url).port)
  onTestFinished(async () => {
    proxy.close()
    await service.stop()
  })
  return { ...service, url }
}

const click = (page: Page, name: string) => page.getByRole('button', { name }).click()

/** A screen on which the opener of pages notes the address. */
function addBrowser(shell: Shell): Record<string, string> {
  const bin = join(shell.home, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$1" > ${shell.home}/opened\n`)
  chmodSync(join(bin, 'xdg-open'), 0o755)
  return { DISPLAY: ':9', PATH: `${bin}:${process.env.PATH}` }
}

function findOpened(shell: Shell): string | undefined {
  try {
    return readFileSync(join(shell.home, 'opened'), 'utf8').trim() || undefined
  } catch {
    return undefined
  }
}

test('login opens the page with the code in it; signing in and approving there signs in the terminal', async () => {
  const service = await startPublicService()
  const { email } = await registerOwner(service)
  const shell = openShell()
  const terminal = shell.terminal(['login', service.url], { env: addBrowser(shell) })
  await terminal.see(`A browser opens ${service.url}/device`)
  await terminal.see(/It must show this code: [A-Z]{4}-[A-Z]{4}/)
  const code = /this code: (\S+)/.exec(terminal.screen())?.[1] ?? ''
  const opened = new URL(await until(() => findOpened(shell), 120_000, 'the browser is opened'))
  expect(opened.href).toBe(`${service.url}/device#code=${code}`)
  const page = await openPage(service, { path: opened.pathname + opened.hash, expectedErrors: [/401/] })
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await click(page, 'Sign in')
  await page.getByText(code).waitFor()
  await page.getByText(hostname()).waitFor()
  await click(page, 'Approve')
  await terminal.see(`Signed in to ${service.url} as ${email}.`)
  await terminal.see('Create the project')
  terminal.type('n')
  expect(await terminal.ended).toMatchObject({ code: 0 })
  expect(JSON.parse((await shell.coffer(['whoami', '--json'])).out)).toMatchObject({
    email,
    credential: { type: 'cli' },
  })
})

test('login --no-browser prints the page, and ends when it is denied there', async () => {
  const service = await startPublicService()
  const { session } = await registerOwner(service)
  const terminal = openShell().terminal(['login', service.url, '--no-browser'])
  await terminal.see('It must show this code')
  const { pathname, hash } = new URL(/Open this page in a browser: (\S+)/.exec(terminal.screen())?.[1] ?? '')
  const page = await openPage(service, { path: pathname + hash, session })
  await click(page, 'Deny')
  await terminal.see('The login was denied in the browser.')
  expect(await terminal.ended).toMatchObject({ code: 4 })
})
