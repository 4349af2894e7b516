import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { ApiError, type RevisionResults, type WriteResults } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { type Found, listNames } from '../import/entry.ts'
import { type NamedSecret, nameSecrets } from '../import/name.ts'
import { type FileFormat, importFormats, recognise } from '../import/recognise.ts'
import { visible } from '../output/table.ts'
import { readSettings, requirePlace } from '../place/place.ts'
import { explainMissing, openProject, type Project, requireEnvironmentName } from '../secret/project.ts'
import { warnUnresolved } from '../secret/value.ts'
import { readStdin } from '../stdin.ts'

/** Limits of one request to the service, which is one transaction. */
const maxBytes = 8 * 1024 * 1024
const maxSecrets = 10_000
/** Thousands of secrets take the service longer than other requests. */
const timeoutMs = 120_000

const modes = ['create', 'upsert', 'skip'] as const

export const importCommand = defineCommand({
  usage: 'FILE|-',
  args: [0, 1],
  findsPlace: true,
  flags: {
    format: { type: 'string', value: 'FORMAT', about: 'Format of the file', choices: importFormats },
    mode: { type: 'string', value: 'MODE', about: 'What happens to keys that exist', choices: modes },
    literal: { type: 'boolean', about: `Take \${…} in the file as text, not as references` },
    'dry-run': { type: 'boolean', about: 'Only show what would change' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Message of the revision' },
    from: { type: 'string', value: 'SERVICE', about: 'Read a live service instead of a file', choices: ['vault'] },
    path: { type: 'string', value: 'PATH', about: 'Mount and folder to read, with --from vault' },
  },
  details: `
Imports a file into the environment, all of it or nothing. Prints names and what happens to them, never values.

Modes: create (the default) refuses keys that have a value, upsert changes them, skip leaves them as they are.

The format is guessed from the content and the ending of the file: dotenv, JSON, YAML, CSV, or the JSON of another tool:
  vault      vault kv get -format=json secret/app; or an object of paths, each with its fields
  doppler    doppler secrets --json; doppler secrets download --no-file --format json
  infisical  infisical export --format=json
  1password  op item get ITEM --format json; op item list --format json | op item get - --format json
  aws        aws secretsmanager get-secret-value; aws ssm get-parameters-by-path --with-decryption

\${KEY} in a file is a reference to another secret. In a dotenv file it is text in single quotes and after a backslash, as
in a shell. --literal takes it as text everywhere: for files whose references are resolved, such as those that
coffer export writes as JSON, YAML and CSV. A file that dotenvx has encrypted is refused: decrypt it first.

Names of other tools: folders that all secrets share are left out. A name that is valid (letters, digits, _ and -) stays
as it is; any other one becomes upper case with _: db/prod.password is imported as DB_PROD_PASSWORD. Two secrets that
would get the same name are refused. "\${" in the values of other tools stays text and is no reference.

--from vault reads a KV engine (version 1 or 2) with your own token: VAULT_ADDR, VAULT_TOKEN and, if you use one,
VAULT_NAMESPACE. Folders below --path become part of the names. For a private CA set NODE_EXTRA_CA_CERTS.

In a folder without a project it first asks for one, like coffer init, if it runs in a terminal.

Examples:
  coffer import .env
  coffer import .env.production -e production --mode upsert --dry-run
  doppler secrets --json | coffer import -
  coffer import --from vault --path secret/app --mode skip
`,
  async run(ctx, { flags, args: [file] }) {
    if (flags.from === undefined && file === undefined) throw usageError('A file is missing.', 'coffer import .env')
    if (flags.from !== undefined && (file !== undefined || flags.format !== undefined)) {
      throw usageError(
        '--from vault takes neither a file nor --format.',
        'coffer import --from vault --path secret/app',
      )
    }
    if (flags.from !== undefined && flags.path === undefined) {
      throw usageError('--from vault needs --path.', 'coffer import --from vault --path secret/app')
    }
    if (flags.from === undefined && flags.path !== undefined) throw usageError('--path belongs to --from vault.')
    const isNew = ctx.terminal.isInteractive && isWithoutProject(ctx)
    // Before anything is read; where somebody can be asked, the file is read first, so that a wrong name creates nothing.
    if (!isNew) requirePlace(ctx)
    const source = await readSource(ctx, file, flags)
    if (isNew) await setUpFolder(ctx)
    const project = openProject(ctx)
    const environment = requireEnvironmentName(ctx)
    const isDryRun = flags['dry-run']
    const mode = modes.find((one) => one === flags.mode) ?? 'create'
    const options = {
      mode,
      dryRun: isDryRun,
      literal: flags.literal,
      ...(flags.message !== undefined && { message: flags.message }),
    }
    const results = await explainMissing(project, { environments: [environment] }, () =>
      write(ctx, project, environment, source, options),
    )
    // Most likely a command before the pipe has failed.
    if (results.results.length === 0) throw nothingToImport()
    show(ctx, `${project.path.prj}/${environment}`, results, isDryRun)
    if (!isDryRun && source.kind === 'file' && !flags.literal && source.content.includes('${')) {
      await warnOfReferences(ctx, project, environment, results)
    }
    if (file !== undefined && file !== '-' && !isDryRun) {
      ctx.out.note(`${visible(file)} still holds the secrets in the clear: delete it when you no longer need it.`)
    }
  },
})

/** One value with a reference that leads nowhere keeps `coffer run` from starting anything. */
async function warnOfReferences(
  ctx: Context,
  { api, path }: Project,
  environment: string,
  { results }: RevisionResults | WriteResults,
): Promise<void> {
  const written = new Set(results.filter(({ status }) => status in words).map(({ key }) => key))
  const query = { environmentId: environment, resolve: true, view: 'full' } as const
  const secrets = await api.secret.list(path, query, { timeoutMs })
  const isWarned = warnUnresolved(
    ctx,
    secrets.filter(({ name }) => written.has(name)),
  )
  if (isWarned) ctx.out.warn('try: set what is missing; or for a plain ${, --literal, or $${ in the file')
}

function isWithoutProject(ctx: Context): boolean {
  const { file, find } = readSettings(ctx)
  return file === undefined && (find('project') === undefined || find('environment') === undefined)
}

/** The steps of `coffer init`. Stdout is for the result of the import. */
async function setUpFolder(ctx: Context): Promise<void> {
  ctx.out.note('This folder has no project yet.')
  const { init } = await import('./init.ts')
  const out = { ...ctx.out, show: () => undefined }
  // A command is declared without the types of its flags; these are those of init.
  const flags = { force: false, create: false } as never
  await init.run({ ...ctx, out }, { flags, args: [], rest: undefined })
}

type Source =
  | { readonly kind: 'file'; readonly format: FileFormat; readonly content: string; readonly file: string }
  | { readonly kind: 'secrets'; readonly secrets: readonly NamedSecret[] }

type Flags = { readonly format: string | undefined; readonly path: string | undefined }

async function readSource(ctx: Context, file: string | undefined, { format, path }: Flags): Promise<Source> {
  if (file === undefined) {
    const { readVault } = await import('../import/vault-server.ts')
    return nameFound(ctx, await readVault(ctx, path ?? ''), true)
  }
  const content = file === '-' ? await readStdin(ctx) : readFile(ctx, file)
  const recognised = recognise(content, file === '-' ? undefined : file, format)
  if (recognised.kind === 'file') {
    if (format === undefined) ctx.out.note(`Format: ${recognised.format}.`)
    return { ...recognised, content, file: file === '-' ? 'stdin' : file }
  }
  if (format === undefined) ctx.out.note(`Format: export of ${recognised.name}.`)
  return nameFound(ctx, recognised.found, false)
}

function nameFound({ out }: Context, found: Found, keepsFolders: boolean): Source {
  for (const warning of found.warnings ?? []) out.warn(visible(warning))
  const { secrets, renamed } = nameSecrets(found, { keepsFolders })
  if (renamed.length > 0) out.note(`Renamed: ${visible(listNames(renamed))}.`)
  const leftOut = found.leftOut ?? []
  if (leftOut.length > 0) out.note(`Left out: ${visible(listNames(leftOut))}.`)
  if (secrets.length === 0) throw nothingToImport()
  if (secrets.length > maxSecrets) throw tooLarge()
  return { kind: 'secrets', secrets }
}

const nothingToImport = () => new CliError('failure', 'There is nothing to import.')

function readFile({ cwd }: Context, file: string): string {
  const path = resolve(cwd, file)
  try {
    if (statSync(path).size > maxBytes) throw tooLarge()
    const bytes = readFileSync(path)
    const text = bytes.toString('utf8')
    if (!Buffer.from(text, 'utf8').equals(bytes)) throw new CliError('failure', `${file} is not UTF-8 text.`)
    return text
  } catch (error) {
    if (error instanceof CliError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw usageError(path === file ? `There is no file ${file}.` : `There is no file ${file} in ${cwd}.`)
    }
    throw usageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`)
  }
}

/** One transaction or nothing: a part of a file is never imported. */
const tooLarge = () =>
  new CliError('failure', 'One import takes at most 10,000 secrets and 8 MiB. Nothing was imported.', 'split the file')

type Options = {
  readonly mode: (typeof modes)[number]
  readonly dryRun: boolean
  readonly literal: boolean
  readonly message?: string
}

async function write(
  ctx: Context,
  { api, path }: Project,
  environment: string,
  source: Source,
  options: Options,
): Promise<RevisionResults | WriteResults> {
  if (Buffer.byteLength(JSON.stringify(source)) > maxBytes - 4_096) throw tooLarge()
  const progress = ctx.out.progress(options.dryRun ? 'Comparing…' : 'Importing…')
  try {
    if (source.kind === 'secrets') {
      // The values of other tools are literal already.
      const { literal: _, ...others } = options
      const body = { environments: [environment], secrets: [...source.secrets], ...others }
      return await api.secret.create(path, body, { timeoutMs })
    }
    const { format, content } = source
    const { literal, ...others } = options
    const body = { environmentId: environment, format, content, ...others, ...(literal && { literal }) }
    return await api.secret.import(path, body, { timeoutMs })
  } catch (error) {
    throw explained(error, options, source)
  } finally {
    progress.end()
  }
}

/** Adds what to do about keys that exist, and names the file instead of the field of the API. */
function explained(error: unknown, { mode }: Options, source: Source): unknown {
  if (source.kind === 'file' && error instanceof ApiError && error.message.startsWith('content: ')) {
    const problem = error.message.replace('content: ', '')
    const hint = problem.includes('dotenvx')
      ? 'dotenvx decrypt'
      : 'check the line, or name the format: --format dotenv|json|yaml|csv'
    return new CliError('failure', `${visible(source.file)}: ${problem}`, hint, error)
  }
  const isConflict = error instanceof Error && 'status' in error && error.status === 409
  return isConflict && mode === 'create'
    ? new CliError('conflict', error.message, '--mode upsert to change them, or --mode skip to leave them')
    : error
}

const words = { created: 'added', updated: 'changed', unchanged: 'same', skipped: 'skipped' } as const

function show(ctx: Context, where: string, written: RevisionResults | WriteResults, isDryRun: boolean): void {
  const rows = written.results.map(({ key, status, version }) => {
    const word = status in words ? words[status as keyof typeof words] : status
    return { key, word, version }
  })
  ctx.out.show(written, () => ({
    columns: isDryRun ? ['key', 'change'] : ['key', 'change', 'version'],
    rows: rows.map(({ key, word, version }) => (isDryRun ? [key, word] : [key, word, version])),
  }))
  const counts = Object.values(words).flatMap((word) => {
    const count = rows.filter((row) => row.word === word).length
    return count > 0 ? [`${count} ${word}`] : []
  })
  const what = counts.join(', ')
  ctx.out.note(isDryRun ? `${what} in ${where}; nothing was written.` : `${what} in ${where}.`)
}
