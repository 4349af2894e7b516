/** A trail of reads with long key lists, and its archives in a folder. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import { expect } from 'vitest'
import { dayMs } from '../server/src/domain/time.ts'
import { removeOldEntries } from '../server/src/jobs/audit.ts'
import { runHere } from './command.ts'
import { registerOwner, startService, type TestService, type TestUser } from './harness.ts'
import { openRaw, type RawDatabase } from './raw-database.ts'
import { createSecretProject, type SecretProject } from './secret-project.ts'

export const days = 30
export const keys = Array.from({ length: 40 }, (_, index) => `A_KEY_WITH_A_LONG_NAME_${index}`)
export const tomorrow = () => new Date(Date.now() + dayMs).toISOString()

export type Audited = {
  readonly service: TestService
  readonly owner: TestUser
  readonly raw: RawDatabase
  readonly project: SecretProject
  readonly folder: string
  readonly mainId: string
  /** Two concurrent reads share a row. */
  readTwice(): Promise<unknown>
  ask<Body>(path: string): Promise<Body>
  verify(): Promise<AuditVerdict>
  listAll(): Promise<AuditEntry[]>
  archive(...args: string[]): ReturnType<typeof runHere>
  /** Runs the job at a time when all entries are older than the retention period. */
  removeLater(): Promise<void>
  /** The archives of the workspace, oldest first. */
  listFiles(): Promise<string[]>
  stop(): Promise<void>
}

export async function startAudited(): Promise<Audited> {
  const service = await startService({ COFFER_AUDIT_DAYS: String(days) })
  const owner = await registerOwner(service)
  const raw = await openRaw(service)
  const folder = await mkdtemp(join(tmpdir(), 'coffer-archive-'))
  const project = await createSecretProject(service, owner.session)
  await project.set('development', Object.fromEntries(keys.map((key) => [key, 'value-of-the-secret'])))
  const readTwice = () => Promise.all([1, 2].map(() => project.must('GET', '/secret?environmentId=development')))
  await readTwice()
  const { body: main } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const ask = async <Body>(path: string) =>
    (await service.call<Body>('GET', `/v1/workspace/main/audit${path}`, { token: owner.session })).body

  return {
    service,
    owner,
    raw,
    project,
    folder,
    mainId: main.id,
    readTwice,
    ask,
    verify: () => ask<AuditVerdict>('/verify'),
    listAll: () => ask<AuditEntry[]>('?limit=200'),
    async archive(...args) {
      const { COFFER_AUDIT_DAYS: _days, ...settings } = service.settings
      const ended = await runHere(['audit', 'archive', '--to', folder, ...args], settings)
      expect(ended.err).toBe('')
      return ended
    },
    async removeLater() {
      service.clock.offsetMs = (days + 2) * dayMs
      await removeOldEntries(service.app.services)
      service.clock.offsetMs = 0
    },
    async listFiles() {
      const names = (await readdir(folder)).filter((name) => name.startsWith(`audit-${main.id}-`))
      const startOf = (name: string) => Number(name.slice(`audit-${main.id}-`.length).split('-')[0])
      return names.sort((a, b) => startOf(a) - startOf(b)).map((name) => join(folder, name))
    },
    async stop() {
      await raw.close()
      await service.stop()
      await rm(folder, { recursive: true })
    },
  }
}

export const linesOf = async (file: string) => (await readFile(file, 'utf8')).trimEnd().split('\n')
export const entriesOf = async (file: string) =>
  (await linesOf(file)).slice(1, -1).map((line): AuditEntry => {
    const { link: _link, ...entry } = JSON.parse(line)
    return entry
  })
