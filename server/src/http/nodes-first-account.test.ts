/** Several nodes on one new database. */
import { expect, test } from 'vitest'
import { createDatabase, openService, password } from '../../../test/harness.ts'
import { setupCode } from '../../../test/setup-code.ts'

test('of two people with the setup code who register on two nodes at once, one is first and the other is refused', async () => {
  for (let round = 0; round < 3; round++) {
    const database = await createDatabase({ hasSchema: true })
    const nodes = [0, 1].map(() => openService(database.settings, database.dataDir))
    const [here, there] = await Promise.all(nodes)
    const register = (node: typeof here, name: string) =>
      node?.call('POST', '/v1/auth/register', {
        body: { email: `${name}@example.com`, name, password, setupCode, workspace: { name, slug: name } },
      })
    const answers = await Promise.all([register(here, 'anna'), register(there, 'berta')])
    expect(answers.map((answer) => answer?.status).sort()).toEqual([201, 403])
    await there?.stop()
    await here?.stop()
    await database.drop()
  }
})
