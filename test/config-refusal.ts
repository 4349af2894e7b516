/** Settings that are refused, with a message that names the setting. */
import { expect } from 'vitest'
import { readConfig } from '../server/src/config.ts'
import { ConfigError } from '../server/src/config-error.ts'

export type Environment = Record<string, string>

/** The message of the ConfigError; any other error fails the test. */
export function refusalOf(environment: Environment): string {
  try {
    readConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error(`accepted: ${JSON.stringify(environment)}`)
}

/** One sentence that starts with the name of the setting. */
export function expectRefusal(environment: Environment, name: string): string {
  const message = refusalOf(environment)
  expect(message.startsWith(name), message).toBe(true)
  expect(message.slice(name.length), message).toMatch(/^(:|\s)/)
  expect(message, message).toMatch(/\.$/)
  expect(message).not.toContain('\n')
  return message
}
