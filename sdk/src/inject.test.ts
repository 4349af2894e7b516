/** Secrets as variables of the process, and the rule that leaves some out. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type SdkService, startSdkService } from '../../test/sdk-service.ts'
import { coffer, SettingError, wasAlwaysRefused, whyNoVariable } from './coffer.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({
    ...{ HOST: 'db', NUL: 'c4n4ry\0', JAVA_OPTS: 'c4n4ry', 'my-key': 'c4n4ry', REDIS_OPTS: '--quiet' },
  })
})
afterAll(() => running.stop())

test('inject sets variables, and leaves out those that run code, with a line on stderr', async () => {
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  onTestFinished(() => error.mockRestore())
  const secrets = await coffer({ platform: { env: running.env } })
  const into: Record<string, string | undefined> = { JAVA_OPTS: 'mine' }
  const leftOut = secrets.inject({ into })
  expect(into).toEqual({ HOST: 'db', JAVA_OPTS: 'mine', REDIS_OPTS: '--quiet' })
  expect(leftOut.map(({ name }) => name)).toEqual(['JAVA_OPTS', 'NUL', 'my-key'])
  expect(error.mock.calls).toEqual([
    [
      'coffer: left out of the variables: JAVA_OPTS (Java obeys it), NUL (its value contains a NUL), ' +
        'my-key (not the name of a variable).',
    ],
  ])
})

test('inject sets what is allowed, and nothing at all if it is strict', async () => {
  const env = { ...running.env }
  const secrets = await coffer({ platform: { env } })
  const quiet = { onLeftOut: () => undefined }
  secrets.inject({ ...quiet, allowNames: ['JAVA_OPTS'] })
  expect(env).toEqual({ ...running.env, HOST: 'db', JAVA_OPTS: 'c4n4ry', REDIS_OPTS: '--quiet' })
  const into = {}
  expect(() => secrets.inject({ into, strict: true })).toThrow(SettingError)
  expect(() => secrets.inject({ into, strict: true })).not.toThrow(/c4n4ry/)
  expect(into).toEqual({})
  expect(secrets.inject({ ...quiet, into, allowUnsafe: true }).map(({ name }) => name)).toEqual(['NUL'])
  expect(into).toMatchObject({ 'my-key': 'c4n4ry' })
})

describe('the rule', () => {
  test.each([
    ['PATH', 'a shell obeys it'],
    ['path', 'a shell obeys it'],
    ['HOME', 'a shell obeys it'],
    ['BASH_ENV', 'a shell obeys it'],
    ['XDG_CONFIG_HOME', 'every program that keeps its settings there obeys it'],
    ['npm_config_registry', 'npm obeys it'],
    ['JAVA_OPTS', 'Java obeys it'],
    ['VIMINIT', 'vi obeys it'],
    ['LD_PRELOAD', 'the loader of programs obeys it'],
    ['GIT_CONFIG_KEY_3', 'git obeys it'],
    ['1A', 'not the name of a variable'],
    ['A-B', 'not the name of a variable'],
  ])('%s: %s', (name, why) => {
    expect(whyNoVariable(name)).toBe(why)
  })

  test.each([
    'REDIS_OPTS',
    'DATABASE_URL',
    'NPM_TOKEN',
    'YARN_NPM_AUTH_TOKEN',
    'PYTHON_KEY',
    'JAVA',
    'GITHUB_TOKEN',
    '_',
    '__proto__',
    'constructor',
    'TF_VAR_password',
  ])('%s passes', (name) => {
    expect(whyNoVariable(name)).toBeUndefined()
  })

  test.each([
    ['PATH', true],
    ['path', false],
    ['npm_config_script_shell', true],
    ['npm_config_registry', false],
    ['JAVA_OPTS', false],
    ['JAVA_TOOL_OPTIONS', true],
    ['my-key', true],
  ])('%s was refused by the first coffer run: %s', (name, isRefused) => {
    expect(wasAlwaysRefused(name)).toBe(isRefused)
  })
})
