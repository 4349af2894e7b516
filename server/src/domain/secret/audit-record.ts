/** Audit entries of changes to whole secrets. */
import type { SecretRecord } from '../../store/secret/secret.ts'
import type { ProjectAccess } from '../access/access.ts'
import { record, recordTogether } from '../audit/record.ts'
import type { WriteContext } from '../context.ts'

/** A bulk change is recorded against the secrets of the project as one entity. */
export const secretsEntity = ({ id, slug }: { readonly id: string; readonly slug: string }) =>
  ({ type: 'secrets', id, name: slug }) as const

export function recordSecret(
  ctx: WriteContext,
  access: ProjectAccess,
  action: 'UPDATE' | 'DELETE',
  secret: SecretRecord,
  after: Record<string, unknown>,
  environmentIds: readonly string[] = [],
): void {
  record(ctx, { ...eventOf(access, action, secret), environmentIds, after })
}

/** Records the same action for many secrets, as one row of the audit trail. */
export function recordSecrets(
  ctx: WriteContext,
  access: ProjectAccess,
  action: 'UPDATE' | 'DELETE',
  secrets: readonly SecretRecord[],
  afterOf: (secret: SecretRecord) => Record<string, unknown>,
): void {
  recordTogether(
    ctx,
    secrets.map((secret) => ({ ...eventOf(access, action, secret), after: afterOf(secret) })),
  )
}

function eventOf({ snapshot, project }: ProjectAccess, action: 'UPDATE' | 'DELETE', { id, name }: SecretRecord) {
  return { chain: snapshot.workspace.id, action, entity: { type: 'secret', id, name }, projectId: project.id }
}
