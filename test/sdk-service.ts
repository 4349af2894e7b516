/** A real service for tests of the client library, with a project and tokens. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import type { Platform } from '../sdk/src/platform.ts'
import {
  createDatabase,
  createProject,
  createToken,
  type Database,
  openService,
  registerOwner,
  type TestService,
} from './harness.ts'

export type SdkService = {
  readonly service: TestService
  readonly database: Database
  readonly session: string
  /** Reads everything. */
  readonly token: string
  /** Variables that name the service, the environment `development` of the project `api`, and the token. */
  readonly env: Readonly<Record<string, string>>
  readonly environmentId: string
  write(values: Readonly<Record<string, string>>): Promise<void>
  remove(name: string): Promise<void>
  stop(): Promise<void>
}

export async function startSdkService(settings: Record<string, string> = {}): Promise<SdkService> {
  const database = await createDatabase({ hasSchema: true })
  const service = await openService({ ...database.settings, ...settings }, database.dataDir)
  const { session } = await registerOwner(service)
  const { environments } = await createProject(service, session, 'api')
  const { token } = await createToken(service, session, { permission: 'read' })
  const project = '/v1/workspace/main/project/api'
  return {
    service,
    database,
    session,
    token,
    env: {
      COFFER_URL: service.url,
      COFFER_TOKEN: token,
      COFFER_WORKSPACE: 'main',
      COFFER_PROJECT: 'api',
      COFFER_ENVIRONMENT: 'development',
    },
    environmentId: environments.find(({ name }) => name === 'development')?.id ?? '',
    async write(values) {
      const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
      const body = { environments: ['development'], secrets, mode: 'upsert' }
      const answer = await service.call('POST', `${project}/secret`, { token: session, body })
      if (answer.status !== 201) throw new Error(answer.text)
    },
    async remove(name) {
      await service.call('DELETE', `${project}/secret/${name}?environmentId=development`, { token: session })
    },
    async stop() {
      await service.stop()
      await database.drop()
    },
  }
}

type TestClock = {
  at: number
  /** Every sleep so far, in milliseconds. */
  readonly sleeps: number[]
  readonly platform: Pick<Platform, 'now' | 'random' | 'sleep'>
}

/** A clock that stands until it is moved; sleeping moves it, so that no test waits. */
export function testClock(startAt = Date.now()): TestClock {
  const clock: TestClock = {
    at: startAt,
    sleeps: [],
    platform: {
      now: () => clock.at,
      random: () => 0.5,
      async sleep(durationMs, signal) {
        signal?.throwIfAborted()
        clock.sleeps.push(durationMs)
        clock.at += durationMs
      },
    },
  }
  return clock
}

type ScriptedServer = {
  readonly url: string
  /** Method and path of every request. */
  readonly requests: string[]
  readonly server: Server
}

export type Respond = (response: ServerResponse, request: IncomingMessage, body: string) => void

/** Answers request n with the nth function, and all further ones with the last. Ends with the test. */
export async function startScripted(...script: readonly Respond[]): Promise<ScriptedServer> {
  const requests: string[] = []
  const server = createServer(async (request, response) => {
    const respond = script[Math.min(requests.length, script.length - 1)]
    requests.push(`${request.method} ${request.url}`)
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    respond?.(response, request, body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  })
  const address = server.address()
  return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`, requests, server }
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Respond =>
  (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
