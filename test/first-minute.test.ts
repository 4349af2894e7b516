/** What README.md promises a newcomer: five commands, and the application runs with its secrets. */
import { expect, test } from 'vitest'
import { readCommands, takeFirstMinute } from '../docs/first-minute.ts'
import { requirePrograms } from './debian-package.ts'

await requirePrograms('git')

test('the commands of the README lead from a clone to an application with its secrets', async () => {
  const { start, next } = readCommands()
  expect(start).toBe('npm install && npm start')
  expect(next.map((command) => command.replace(' -C ../my-app', ''))).toEqual([
    'npx coffer login',
    'npx coffer import .env',
    'npx coffer run -- npm run dev',
  ])
  const steps = await takeFirstMinute()
  expect(steps.map(({ what }) => what)).toEqual([
    'clone',
    'install',
    'start',
    'log in, with a new account and project',
    'import',
    'run',
  ])
})
