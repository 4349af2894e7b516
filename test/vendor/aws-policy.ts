/** The permissions policy printed by the wizard, for a fake to enforce. */
import type { Provider, Values } from '../../server/src/providers/provider.ts'
import type { AwsPolicy } from './fake/aws.ts'
import type { Fake } from './fake.ts'

type Asked = { readonly takesOver?: boolean; readonly mapping?: Values }

export function policyOf({ auth }: Provider, fake: Fake, syncId: string, asked: Asked = {}): AwsPolicy {
  const { takesOver = false, mapping = {} } = asked
  const field = auth.find(({ id }) => id === 'policy')
  if (field?.kind !== 'copy') throw new Error('the form has no policy')
  return JSON.parse(field.text({ syncId, values: fake.credential, target: fake.target, mapping, takesOver }))
}
