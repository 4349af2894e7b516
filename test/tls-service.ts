/** A service with TLS, and clients that verify its certificate. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { Replacements } from '../server/src/app.ts'
import { type Call, caller } from './caller.ts'
import { makeCertificate, type TestCertificate } from './certificate.ts'
import { startService, type TestService } from './harness.ts'

export type CertificateFiles = {
  readonly settings: { readonly COFFER_TLS_CERT_FILE: string; readonly COFFER_TLS_KEY_FILE: string }
  readonly folder: string
  write(pair: TestCertificate): Promise<void>
  remove(): Promise<void>
}

export async function writeCertificate(pair: TestCertificate): Promise<CertificateFiles> {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-tls-'))
  const [certificateFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const write = async ({ certificate, key }: TestCertificate) => {
    await writeFile(keyFile, key, { mode: 0o600 })
    await chmod(keyFile, 0o600)
    await writeFile(certificateFile, certificate)
  }
  await write(pair)
  const settings = { COFFER_TLS_CERT_FILE: certificateFile, COFFER_TLS_KEY_FILE: keyFile }
  return { settings, folder, write, remove: () => rm(folder, { recursive: true }) }
}

export type TlsService = TestService & {
  readonly pair: TestCertificate
  readonly files: CertificateFiles
  /** Verifies the certificate unless the options say otherwise. */
  connect(options?: ConnectionOptions): TLSSocket
}

export async function startTlsService(
  settings: Record<string, string> = {},
  replacements: Partial<Replacements> = {},
): Promise<TlsService> {
  const pair = makeCertificate()
  const files = await writeCertificate(pair)
  const all = { COFFER_PUBLIC_URL: 'https://localhost:8080', ...files.settings, ...settings }
  const service = await startService(all, replacements)
  const url = service.url.replace('http:', 'https:')
  const agent = new Agent({ keepAlive: true, ca: pair.certificate })
  return {
    ...service,
    url,
    pair,
    files,
    call: callerOf(url, agent),
    connect: (options) =>
      connect({ host: '127.0.0.1', port: Number(new URL(url).port), ca: pair.certificate, ...options }),
    stop: async () => {
      agent.destroy()
      await service.stop()
      await files.remove()
    },
  }
}

export const callerOf = (url: string, agent: Agent): Call => caller(url, agent)
