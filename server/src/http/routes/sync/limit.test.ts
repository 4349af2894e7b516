/** Limits that depend on the chosen target. */
import type { SyncPlan } from '@coffer/contract/sync'
import { expect, test } from 'vitest'
import { pushDue, readStep, setUpSync, startSetup, startSyncWorld, submitStep } from '../../../../../test/sync.ts'
import { fakeGitHub } from '../../../../../test/vendor/fake/github-actions.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { githubActions } from '../../../providers/github-actions.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'

test('exceeding the limit of a GitHub repository is reported before the push; an organization holds more', async () => {
  const problems: Record<string, unknown> = {}
  for (const scope of ['repository', 'environment', 'organization']) {
    const github = await startSyncWorld(githubActions, fakeGitHub(scope))
    const secrets = Array.from({ length: 150 }, (_, index) => [`KEY_${index}`, 'x'])
    await github.project.set('development', Object.fromEntries(secrets))
    const id = await startSetup(github)
    await submitStep(github, id, 'auth', github.fake.credential)
    await submitStep(github, id, 'target', github.fake.target)
    await submitStep(github, id, 'mapping', { environment: github.project.idOf('development') })
    const plan = (await readStep(github, id, 'review')).fields.find((field) => field.id === 'plan')
    problems[scope] = plan?.type === 'copy' && JSON.parse(plan.data.value).problems
    await github.stop()
  }
  const tooMany = [{ name: '*', problem: 'are 150 entries; the target takes 100 at most.' }]
  expect(problems).toEqual({ repository: tooMany, environment: tooMany, organization: [] })
})

test('a hundred values of the maximum size are planned like any others', async () => {
  const gitlab = await startSyncWorld(gitlabCi, fakeGitLab())
  const keys = Array.from({ length: 100 }, (_, index) => `KEY_${index}`)
  for (const half of [keys.slice(0, 50), keys.slice(50)]) {
    await gitlab.project.set('development', Object.fromEntries(half.map((key) => [key, 'x'.repeat(65_536)])))
  }
  const id = await setUpSync(gitlab)
  await pushDue(gitlab)
  expect((await gitlab.project.must<SyncPlan>('POST', `/sync/${id}/plan`)).unchanged).toHaveLength(100)
  await gitlab.stop()
})
