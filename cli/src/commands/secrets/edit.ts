import { type BatchResults, CofferError } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { type Changes, compare, conflictsOf, namesOf, operationsOf, reapply, type State } from '../../edit/change.ts'
import { requireEditor, runEditor } from '../../edit/editor.ts'
import { openPrivateFile, type PrivateFile } from '../../edit/private-file.ts'
import { parseText, TextError, writeText } from '../../edit/text.ts'
import { CliError, exitNameOf, usageError } from '../../error.ts'
import { visible } from '../../output/table.ts'
import { choose } from '../../prompt.ts'
import { writeBatch } from '../../secret/batch.ts'
import { openProject, type Project, requireEnvironment, requireEnvironmentName } from '../../secret/project.ts'
import { showResults } from '../../secret/result.ts'

export const edit = defineCommand({
  usage: '[flags]',
  args: [0, 0],
  findsPlace: true,
  flags: {
    'diff-only': { type: 'boolean', about: 'Print what was changed, by name, and write nothing' },
    yes: { type: 'boolean', short: 'y', about: 'Write without a question' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Why; shown in the history' },
  },
  details: `
Opens the shared values of the environment in $VISUAL or $EDITOR. The file is private, in memory where the system has a
folder for that, and removed in any case. An editor with a window of its own must wait: EDITOR='code --wait'.
Only changed keys are written, in one step. If somebody else has changed one of them meanwhile, nothing is written
(exit code 6), and you can edit again with their values beside yours.

Examples:
  coffer secrets edit
  coffer secrets edit -e production -m 'new database'
  coffer secrets edit --diff-only`,
  async run(ctx, { flags }) {
    const isAsking = !flags.yes && !flags['diff-only']
    if (isAsking && !ctx.terminal.isInteractive) {
      throw usageError('There is nobody to ask here whether to write.', '--yes, or --diff-only')
    }
    const editor = requireEditor(ctx)
    const name = requireEnvironmentName(ctx)
    const project = openProject(ctx)
    const environment = await requireEnvironment(project, name)
    const place = { project, environmentId: environment.id, environment: environment.name }
    const file = openPrivateFile(ctx)
    try {
      const done = await editUntilDone(ctx, { ...place, file, editor, flags: { ...flags, isAsking } })
      if (done) await showResults(ctx, project, done)
    } finally {
      file.wipe()
    }
  },
})

type Session = {
  readonly project: Project
  readonly environmentId: string
  readonly environment: string
  readonly file: PrivateFile
  readonly editor: string
  readonly flags: { readonly 'diff-only': boolean; readonly message: string | undefined; readonly isAsking: boolean }
}

/** Undefined if there was nothing to write. */
async function editUntilDone(ctx: Context, session: Session): Promise<BatchResults | undefined> {
  const { file, editor, flags } = session
  let base = await readState(session)
  file.write(describe(session, base))
  for (;;) {
    await runEditor(ctx, editor, file.path)
    const edited = readEdited(file)
    if (typeof edited === 'string') {
      await requireAnotherTry(ctx, usageError(edited))
      continue
    }
    if (edited.size === 0 && base.size > 0) throw new CliError('cancelled', 'The file is empty: nothing was changed.')
    const changes = compare(base, edited)
    if (flags['diff-only'] || namesOf(changes).length === 0) return showChanges(ctx, changes)
    const say = flags.isAsking ? ctx.out.warn : ctx.out.note
    say(describeChanges(changes).join('\n'))
    if (flags.isAsking && (await askWhatNext(ctx, session.environment)) === 'edit') continue
    try {
      return await write(session, base, edited, changes)
    } catch (error) {
      if (!(error instanceof CofferError)) throw error
      const isConflict = exitNameOf(error) === 'conflict'
      const current = isConflict ? await readState(session) : base
      const left = compare(current, reapply(current, edited, changes))
      // The answer to a first attempt was lost: the repetition has met our own change.
      if (isConflict && namesOf(left).length === 0) return showChanges(ctx, left)
      await requireAnotherTry(ctx, error)
      const conflicts = conflictsOf(base, current, changes)
      if (isConflict) file.write(describe(session, current, reapply(current, edited, changes), conflicts))
      base = current
    }
  }
}

async function readState({ project, environmentId }: Session): Promise<State> {
  const secrets = await project.api.secret.list(project.path, { environmentId })
  return new Map(
    secrets.flatMap(({ name, note, values }) => {
      const shared = values.find(({ isPersonal }) => !isPersonal)
      return shared ? [[name, { value: shared.value ?? '', version: shared.version ?? 0, note }] as const] : []
    }),
  )
}

function describe(
  { project, environment }: Session,
  state: State,
  values: ReadonlyMap<string, string> = new Map([...state].map(([key, { value }]) => [key, value])),
  conflicts: readonly string[] = [],
): string {
  const heading = [
    `Secrets of ${environment} in ${project.path.prj}. Change, add or delete lines, then save and close.`,
    `KEY=value, KEY='...' over several lines, or KEY="..." with \\n, \\" and \\\\. An empty file changes nothing.`,
    ...(conflicts.length > 0 ? [`Changed by others meanwhile: ${conflicts.join(', ')}. Your values are below.`] : []),
  ]
  const lines = [...values]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, value]) => ({ key, value, note: noteOf(state, key, conflicts) }))
  return writeText(heading, lines)
}

function noteOf(state: State, key: string, conflicts: readonly string[]): string {
  const stored = state.get(key)
  if (!conflicts.includes(key)) return stored?.note ?? ''
  const theirs = stored ? `Changed by others, to ${JSON.stringify(stored.value)}; yours:` : 'Deleted by others; yours:'
  return stored?.note ? `${stored.note}\n${theirs}` : theirs
}

/** The problem, if the text cannot be read. */
function readEdited(file: PrivateFile): Map<string, string> | string {
  try {
    const text = file.read()
    return text === undefined ? 'The editor has not saved the file as UTF-8.' : parseText(text)
  } catch (error) {
    if (error instanceof TextError) return error.message
    throw new CliError('failure', 'The editor has removed the file: nothing was changed.')
  }
}

const write = (
  { project, environmentId, flags }: Session,
  base: State,
  edited: Map<string, string>,
  changes: Changes,
) =>
  writeBatch(project, {
    environmentId,
    operations: operationsOf(base, edited, changes),
    ...(flags.message !== undefined && { message: flags.message }),
  })

const describeChanges = ({ added, changed, removed }: Changes): string[] => [
  ...added.map((key) => `  create   ${key}`),
  ...changed.map((key) => `  update   ${key}`),
  ...removed.map((key) => `  delete   ${key}`),
]

function showChanges({ out }: Context, changes: Changes): undefined {
  const { added, changed, removed } = changes
  if (namesOf(changes).length === 0) out.note('Nothing to write.')
  out.show(changes, () => ({
    columns: ['change', 'name'],
    rows: [
      ...added.map((key) => ['added', key]),
      ...changed.map((key) => ['changed', key]),
      ...removed.map((key) => ['removed', key]),
    ],
  }))
}

async function askWhatNext(ctx: Context, environment: string): Promise<'write' | 'edit'> {
  const next = await choose(ctx, {
    message: `Write these changes to ${environment}?`,
    hint: '--yes',
    options: [
      { value: 'write', label: 'Write' },
      { value: 'edit', label: 'Edit again' },
      { value: 'discard', label: 'Discard' },
    ],
  })
  if (next === 'discard') throw new CliError('cancelled', 'Discarded: nothing was changed.')
  return next
}

/** Says what went wrong and offers the edited text again; without a person to ask, it fails. */
async function requireAnotherTry(ctx: Context, problem: CliError | CofferError): Promise<void> {
  if (!ctx.terminal.isInteractive) throw problem
  ctx.out.warn(`coffer: ${visible(problem.message)}`)
  const next = await choose(ctx, {
    message: 'Nothing was written.',
    hint: '--yes',
    options: [
      { value: 'edit', label: 'Edit again' },
      { value: 'discard', label: 'Discard' },
    ],
  })
  if (next === 'discard') throw problem
}
