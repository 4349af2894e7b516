import { ApiError, CofferError, describeLeftOut, type Me } from '@coffer/sdk'
import { describeCache } from '../cache/cache-state.ts'
import { defineCommand } from '../command.ts'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { findUrl, type PlaceName, readSettings } from '../place/place.ts'
import { locate } from '../place/token-place.ts'
import { findNoVariables } from '../secret/no-variable.ts'
import { findCredentialSource } from '../session/credential-source.ts'
import { readMe } from '../session/me.ts'
import { mergedSources } from '../source/source.ts'

const placeNames: readonly PlaceName[] = ['url', 'workspace', 'project', 'environment']

export const status = defineCommand({
  usage: '',
  args: [0, 0],
  flags: {},
  details: `
Shows which service, workspace, project and environment commands use in this folder, where
each of them comes from, and as whom. A flag wins over a variable, a variable over
.coffer.json, and the file over the last login. Names the secrets that coffer run does not set.
Works without the service.`,
  async run(ctx) {
    const placed = await locate(ctx).catch(() => ctx)
    const settings = readSettings(placed)
    const sources = describeSources(ctx)
    const url = findUrl(ctx)
    const source = findCredentialSource(ctx.env, url)
    const person = url === undefined || !source ? { state: 'not signed in' } : await askPerson(ctx)
    const cache = await describeCache(ctx)
    const leftOut = person.me ? await findNoVariables(placed) : undefined
    const places = Object.fromEntries(placeNames.map((name) => [name, settings.find(name) ?? null]))
    const found = {
      ...places,
      file: settings.file?.path ?? null,
      user: person.me?.email ?? (source?.kind === 'login' ? source.login.email : null),
      state: person.state,
      credential: source?.from ?? null,
      cache,
      sources,
      unsaved: [],
      leftOut: leftOut ?? null,
    }
    ctx.out.show(found, () => ({
      columns: ['what', 'value', 'from'],
      rows: [
        ...placeNames.map((name) => {
          const { value = 'not set', from = '' } = settings.find(name) ?? {}
          return [name === 'url' ? 'service' : name, value, from]
        }),
        ...sources.map((label) => ['source', label, found.file ?? '']),
        ['signed in as', found.user || person.me?.name || 'nobody', source?.from ?? ''],
        [source === undefined || source.kind === 'login' ? 'session' : 'token', person.state, ''],
        ['.coffer.json', found.file ?? 'none', ''],
        ['offline cache', cache, ''],
        // Commands write at once or not at all; an interrupted `secrets edit` removes its file.
        ['unsaved edits', 'none', ''],
        ['left out by run', leftOut ? describeLeftOut(leftOut) || 'none' : 'not checked', ''],
      ],
    }))
  },
})

/** The environments that are merged, in their order. */
function describeSources(ctx: Context): string[] {
  try {
    const sources = mergedSources(readSettings(ctx)) ?? []
    return sources.map(({ label, prefix }) => (prefix === '' ? label : `${label} as ${prefix}…`))
  } catch (error) {
    if (error instanceof CliError) return [error.message]
    throw error
  }
}

type Person = { readonly state: string; readonly me?: Me }

/** A service that cannot be reached must not hide the rest. */
async function askPerson(ctx: Context): Promise<Person> {
  try {
    const me = await readMe(connect(ctx, { timeoutMs: 3_000, retries: 0 }))
    return { state: `valid until ${me.credential.expiresAt ?? 'it is revoked'}`, me }
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return { state: 'ended: coffer login' }
    if (error instanceof CofferError || error instanceof CliError) return { state: `not checked: ${error.message}` }
    throw error
  }
}
