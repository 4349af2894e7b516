/** The secrets here that `coffer run` leaves out because of their names. */
import { CofferError, type LeftOut, whyNoVariable } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { readSettings } from '../place/place.ts'
import { trustedAllowNames } from '../place/trusted-names.ts'
import { listSources } from '../source/source.ts'

/** Undefined if the service cannot be asked, or if no environment is chosen. Names only: no value is read. */
export async function findNoVariables(ctx: Context): Promise<readonly LeftOut[] | undefined> {
  try {
    const settings = readSettings(ctx)
    const allowed = trustedAllowNames(ctx, settings)
    const api = connect(ctx, { timeoutMs: 3_000, retries: 0 })
    const names = new Set<string>()
    for (const { workspace, project, environment, prefix } of listSources(ctx, settings)) {
      if (workspace === undefined || project === undefined || environment === undefined) return undefined
      const query = { environmentId: environment, view: 'keys' } as const
      for (const { name } of await api.secret.list({ ws: workspace, prj: project }, query)) names.add(prefix + name)
    }
    return [...names].flatMap((name) => {
      const why = allowed.includes(name) ? undefined : whyNoVariable(name)
      return why === undefined ? [] : [{ name, why }]
    })
  } catch (error) {
    if (error instanceof CofferError || error instanceof CliError) return undefined
    throw error
  }
}
