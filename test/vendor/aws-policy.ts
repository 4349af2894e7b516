/** The permissions policy printed by the wizard, for a fake to enforce. */
import type { Provider } from '../../server/src/providers/provider.ts'
import type { AwsPolicy } from './fake/aws.ts'

export function policyOf({ auth }: Provider, syncId: string, takesOver: boolean): AwsPolicy {
  const field = auth.find(({ id }) => id === 'policy')
  if (field?.kind !== 'copy') throw new Error('the form has no policy')
  return JSON.parse(field.text({ syncId, values: {}, takesOver }))
}
