/** The browser of the tests: Chromium without its windows, which takes half of the processor time. */
import { execFileSync } from 'node:child_process'
import { requirePrograms } from './debian-package.ts'

export const browserProgram = 'chromium-headless-shell'

export async function browserOptions(): Promise<{ executablePath: string; args: string[] }> {
  await requirePrograms(browserProgram)
  const executablePath = execFileSync('sh', ['-c', `command -v ${browserProgram}`], { encoding: 'utf8' }).trim()
  // The sandbox does not start as root. No host name resolves, so that the browser reaches only this machine.
  return { executablePath, args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'] }
}
