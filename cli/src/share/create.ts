/** Makes a share: sealed here by default, so that the service never sees the key, or by the service. */
import type { IssuedShare, NewShare, SecretRow } from '@coffer/sdk'
import { type ShareContent, ShareEnvelopeError, seal } from '@coffer/sdk/share-envelope'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { explainMissing, type Project } from '../secret/project.ts'
import { warnUnresolved } from '../secret/value.ts'
import { leadsToPersonal } from './personal.ts'

type Wanted = {
  /** Text from stdin, or keys of an environment. */
  readonly source: { readonly text: string } | { readonly keys: readonly string[]; readonly environment: string }
  readonly limits: Pick<NewShare, 'expiresIn' | 'maxViews'>
  readonly password: string | undefined
  readonly isServerSide: boolean
}

const maxLabelLength = 100
const maxKeys = 100

export async function createShare(ctx: Context, project: Project, wanted: Wanted): Promise<IssuedShare> {
  const { source, limits, password } = wanted
  const label = 'keys' in source ? labelOf(source.keys) : undefined
  const body = { ...limits, ...(label !== undefined && { label }) }
  if (wanted.isServerSide) {
    const content = 'text' in source ? { content: source.text } : { secrets: await findSecrets(project, source) }
    return project.api.share.create(project.path, { ...body, ...content, ...(password !== undefined && { password }) })
  }
  const content: ShareContent =
    'text' in source ? { t: 'text', v: source.text } : { t: 'kv', items: await readSecrets(ctx, project, source) }
  const { envelope, fragment } = await seal(content, password).catch((error: unknown) => {
    throw error instanceof ShareEnvelopeError ? new CliError('failure', error.message) : error
  })
  const issued = await project.api.share.create(project.path, { ...body, envelope })
  return { ...issued, url: issued.url + fragment }
}

/** The names of the keys are no secret to the service, and tell shares apart in the list. */
function labelOf(keys: readonly string[]): string {
  const label = keys.join(', ')
  return label.length <= maxLabelLength ? label : `${label.slice(0, maxLabelLength - 1)}…`
}

type Keys = { readonly keys: readonly string[]; readonly environment: string }

const findSecrets = async (project: Project, wanted: Keys) =>
  (await readRows(project, wanted, {})).map(({ id, row }) => ({ id, environmentId: row.environmentId }))

/** A reference that cannot be resolved is often meant for another program, such as a shell, and stays as it is. */
async function readSecrets(ctx: Context, project: Project, wanted: Keys) {
  const found = await readRows(project, wanted, { resolve: true, onUnresolved: 'keep' })
  for (const { name, row } of found) {
    if (await leadsToPersonal(project, { environment: wanted.environment, key: name })) {
      throw new CliError(
        'failure',
        `${name} has references that may lead to personal values of yours, which are not shared.`,
        '--server-side, which leaves personal values out',
      )
    }
    warnUnresolved(ctx, [{ name, values: [row] }])
  }
  return found.map(({ name, row }) => ({ name, value: row.value ?? '' }))
}

/** Shared values only: a personal one is for its owner. */
async function readRows(
  project: Project,
  { keys, environment }: Keys,
  query: { readonly resolve?: true; readonly onUnresolved?: 'keep' },
): Promise<{ id: string; name: string; row: SecretRow }[]> {
  if (keys.length > maxKeys) throw usageError(`A share holds ${maxKeys} secrets at most.`)
  const view = query.resolve ? {} : ({ view: 'keys' } as const)
  const rows: { id: string; name: string; row: SecretRow }[] = []
  for (const key of keys) {
    const { id, name, values } = await explainMissing(project, { environments: [environment], key }, () =>
      project.api.secret.read({ ...project.path, key }, { environmentId: environment, ...query, ...view }),
    )
    const row = values.find(({ isPersonal }) => !isPersonal)
    if (!row) throw new CliError('failure', `${name} has only a personal value in ${environment}, which is not shared.`)
    rows.push({ id, name, row })
  }
  return rows
}
