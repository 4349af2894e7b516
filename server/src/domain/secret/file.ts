/** Exports an environment as a file, and imports a file into an environment. */
import type { ProjectPath } from '@coffer/contract/field'
import type { RevisionResults } from '@coffer/contract/secret'
import type { SecretExport, SecretImport } from '@coffer/contract/secret-file'
import type { Entry } from '@coffer/contract/secret-format'
import { type LeftOut, whyLeftOut } from '@coffer/contract/variable-name'
import { Failure } from '../../failure.ts'
import { type ProjectAccess, requireProject } from '../access/access.ts'
import { readDetails, recordRead } from '../audit/record-read.ts'
import type { SnapshotEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { secretsEntity } from './audit-record.ts'
import { chooseEnvironment, personalOwner } from './choose-environment.ts'
import type { WriteOptions } from './format/entry.ts'
import type { ExportFormat } from './format/format.ts'
import { effectiveValues, loadProject } from './load.ts'
import { type WrittenAnswer, writeAnswer } from './read/chunks.ts'
import { namePlaces, resolveRows } from './reference/follow.ts'
import { requireWritable } from './right.ts'
import { createAllowance } from './size.ts'
import { writeAll } from './write/change.ts'
import { writeRevision } from './write/revision.ts'

type ExportedFile = WrittenAnswer & {
  readonly contentType: string
  /** Names of secrets that are not in the file. */
  readonly leftOut: readonly string[]
}

/** References stay as written unless the query asks to resolve them. */
export async function exportSecrets(ctx: Context, path: ProjectPath, query: SecretExport): Promise<ExportedFile> {
  const access = await requireProject(ctx, path, 'secret:read')
  const environment = chooseEnvironment(access, query)
  const { file, format, keys, places, leftOut } = await makeFile(ctx, access, environment, query)
  if (keys.length > 0) {
    const event = {
      chain: access.snapshot.workspace.id,
      action: 'VIEW',
      entity: secretsEntity(access.project),
      projectId: access.project.id,
      environmentId: environment.id,
    } as const
    const referenced = namePlaces(access, places)
    const after = { keys, export: format, ...(referenced.length > 0 && { referenced }) }
    const readIn = [environment.id, ...places.map(({ environmentId }) => environmentId)]
    await recordRead(ctx, event, readDetails(after, readIn), file.bytes)
  }
  return { ...file, leftOut }
}

const exportAdvice = 'list the keys (GET …/secret?view=keys) and read secrets one by one'

async function makeFile(ctx: Context, access: ProjectAccess, environment: SnapshotEnvironment, query: SecretExport) {
  const ownerId = personalOwner(ctx)
  const loaded = await loadProject(ctx, access, [environment], ownerId, { advice: exportAdvice })
  const { names } = loaded
  const rows = chooseRows(effectiveValues(loaded.values), names, query)
  const onUnresolved = query.onUnresolved ?? 'keep'
  const resolution = query.resolve ? await resolveRows(ctx, access, rows, names, { ownerId, onUnresolved }) : undefined
  const entries = rows
    .map((row) => ({ key: names.get(row.secretId) ?? '', value: resolution?.byRow.get(row)?.value ?? row.value, row }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  if (onUnresolved === 'error') {
    const broken = entries.find(({ row }) => (resolution?.byRow.get(row)?.unresolved.length ?? 0) > 0)
    if (broken) throw new Failure('conflict', `${broken.key}: holds a reference that cannot be resolved.`)
  }
  const format = query.format ?? 'dotenv'
  const name = `${access.project.slug}-${environment.name}`
  const { held, leftOut } = format === 'shell' ? chooseVariables(entries, query) : { held: entries, leftOut: [] }
  const file = await writeFile(ctx, format, held, { name, isResolved: query.resolve === true, leftOut })
  return {
    ...{ file, format, leftOut: leftOut.map(({ name }) => name) },
    keys: held.map(({ key }) => key),
    places: resolution?.referenced ?? [],
  }
}

/** A shell that evaluates the file gets no variable that makes programs run other code. Files of data stay whole. */
function chooseVariables<One extends Entry>(entries: readonly One[], { allowName = [], allowUnsafe }: SecretExport) {
  const allowed = { names: [allowName].flat(), all: allowUnsafe === true }
  const held: One[] = []
  const leftOut: LeftOut[] = []
  for (const entry of entries) {
    const why = whyLeftOut(entry.key, entry.value, allowed)
    if (why === undefined) held.push(entry)
    else leftOut.push({ name: entry.key, why })
  }
  return { held, leftOut }
}

function chooseRows<Row extends { readonly secretId: string }>(
  rows: readonly Row[],
  names: ReadonlyMap<string, string>,
  { key }: SecretExport,
): readonly Row[] {
  if (key === undefined) return rows
  const wanted = new Set([key].flat())
  const chosen = rows.filter(({ secretId }) => wanted.delete(names.get(secretId) ?? ''))
  if (wanted.size > 0)
    throw new Failure('notFound', `There is no secret ${[...wanted].join(', ')} in this environment.`)
  return chosen
}

async function writeFile(ctx: Context, format: ExportFormat, entries: readonly Entry[], options: WriteOptions) {
  const { formatLines } = await import('./format/format.ts')
  const { lines, contentType, weight } = formatLines(format, entries, options)
  const allowance = createAllowance(ctx, 'environmentId', exportAdvice)
  return { ...(await writeAnswer(ctx, lines, allowance, { weight })), contentType }
}

export async function importSecrets(ctx: Context, path: ProjectPath, body: SecretImport): Promise<RevisionResults> {
  const access = await requireProject(ctx, path, 'secret:write')
  const environment = requireWritable(access, body.environmentId)
  const entries = await readFile(ctx, body)
  const edits = entries.map((entry) => ({ ...entry, environment }))
  return writeRevision(ctx, access, environment, body.dryRun, (ctx) => writeAll(ctx, access, edits, body))
}

/** Parses in pieces: a file may be megabytes, and must not block the event loop. */
async function readFile(ctx: Context, { format, content, literal = false }: SecretImport): Promise<Entry[]> {
  // Imported lazily: the parsers are large, and most processes never need one.
  const { parseInPieces } = await import('./format/format.ts')
  const pieces = parseInPieces(format, content, { isLiteral: literal })
  let piece = pieces.next()
  while (!piece.done) {
    await ctx.longWork.giveWay()
    piece = pieces.next()
  }
  return piece.value
}
