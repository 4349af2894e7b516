/** JSON on a terminal: it shows the object, and nothing in it steers the terminal or turns the direction of its text. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

const value =
  'C1 \u009b31m\u0085, del \u007f, turned \u202e\u202a\u2066\u2069\u200e\u200f\u061c, lines \u2028\u2029, é 漢字 🔑'
const hostile = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({ ODD: value })
})
afterAll(() => running.stop())

test.each([
  {
    args: ['secrets', 'get', 'ODD', '--json'],
    found: (shown: { values: { value: string }[] }) => shown.values[0]?.value,
  },
  { args: ['export', '--json'], found: (shown: { ODD: string }) => shown.ODD },
  { args: ['export', '-f', 'json'], found: (shown: { ODD: string }) => shown.ODD },
])('$args', async ({ args, found }) => {
  const shell = openShell(running.env)
  const session = shell.terminal(args)
  const { code, out } = await session.ended
  expect(code).toBe(0)
  expect(out).not.toMatch(hostile)
  expect(out).toContain('é 漢字 🔑')
  expect(found(JSON.parse(out))).toBe(value)
  // Programs get the text as JSON has it.
  const piped = await shell.coffer(args)
  expect(piped.out).toMatch(hostile)
  expect(found(JSON.parse(piped.out))).toBe(value)
})
