import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type LeftOut, type SecretExport, whyLeftOut, whyNoVariable } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import type { Entry } from '../export/entry.ts'
import { writePrivateFile } from '../export/file.ts'
import {
  type Format,
  isOfService,
  kubernetesNeedsOne,
  needsOne,
  ownFormats,
  serviceFormats,
  setsVariables,
  wasSet,
  writeText,
} from '../export/format.ts'
import { environmentFile, maskCommands } from '../export/github.ts'
import { visibleJson } from '../output/table.ts'
import { readSettings } from '../place/place.ts'
import { describe, type NameRule, nameFlags, nameRuleOf, refuseLeftOut } from '../run/name-rule.ts'
import { splitNames } from '../run/options.ts'
import { findMerged, mergeValues } from '../secret/merged.ts'
import { explainMissing, openProject, type Project, requireEnvironmentName, withoutSecrets } from '../secret/project.ts'
import type { NamedSource } from '../source/source.ts'

export const exportCommand = defineCommand({
  usage: '[flags]',
  args: [0, 0],
  findsPlace: true,
  flags: {
    format: {
      type: 'string',
      short: 'f',
      value: 'FORMAT',
      about: 'dotenv by default',
      choices: [...serviceFormats, ...ownFormats],
    },
    only: { type: 'list', value: 'KEY,KEY', about: 'Only these secrets' },
    output: { type: 'string', short: 'o', value: 'FILE', about: 'Write a file with mode 0600 instead of stdout' },
    force: { type: 'boolean', about: 'Replace FILE if it exists' },
    'no-resolve': { type: 'boolean', about: 'Export references to other secrets as they are stored' },
    'on-unresolved': {
      type: 'string',
      value: 'WAY',
      about: 'What to do with a reference that cannot be resolved; error by default',
      choices: ['error', 'keep', 'empty'],
    },
    ...nameFlags,
  },
  details: `
A value that a format cannot hold is refused, and the error names its key.
  shell   for eval in any POSIX shell       fish     for source in fish
  docker  for docker run --env-file
  k8s     a Secret for kubectl apply        tfvars   variables of Terraform
  github  masks each line of 6 characters and more in the log, then appends to $GITHUB_ENV; with -o to another file
          of the step, such as $GITHUB_OUTPUT
  gitlab  a report for artifacts:reports:dotenv

Formats that set variables (shell, fish, github, gitlab) leave out the names that coffer run leaves out, such as PATH and
JAVA_OPTS, and name them on stderr; without a terminal they fail instead, unless --allow-name KEY or --no-strict is given.

Several environments: with "sources" in .coffer.json, it writes what coffer run sets. k8s and --no-resolve need one: -p and -e.

Examples:
  coffer export > .env
  coffer export -o .env --force
  coffer export --only DATABASE_URL,PORT -f docker
  eval "$(coffer export -f shell)"
  coffer export -f fish | source
  coffer export -f k8s -e production | kubectl apply -f -
  coffer export -f json | jq -r .DATABASE_URL`,
  async run(ctx, { flags }) {
    const isJson = ctx.flags.json
    if (isJson && flags.format !== undefined && flags.format !== 'json') throw usageError('Give --json or --format.')
    if (flags['no-resolve'] && flags['on-unresolved'] !== undefined) {
      throw usageError('Give --no-resolve or --on-unresolved.')
    }
    if (flags.force && flags.output === undefined) throw usageError('--force needs --output FILE.')
    // The parser accepts only these choices.
    const format = (isJson ? 'json' : (flags.format ?? 'dotenv')) as Format
    const rule = nameRuleOf(ctx, flags, readSettings(ctx))
    // Before any value is read.
    if (format === 'github') requireGithubFile(ctx, flags.output)
    const request: Request = {
      format,
      rule,
      only: flags.only.length > 0 ? flags.only.flatMap((names) => splitNames(names, '--only')) : undefined,
      // The parser accepts only these choices.
      onUnresolved: flags['no-resolve'] ? undefined : ((flags['on-unresolved'] ?? 'error') as Request['onUnresolved']),
    }
    const sources = findMerged(ctx)
    const { given, entries, ...read } = await (sources ? readSources(ctx, sources, request) : readOne(ctx, request))
    const reasons = new Map(
      setsVariables(format) ? entries.map(([key, value]) => [key, whyLeftOut(key, value, rule)]) : [],
    )
    const held = entries.filter(([key]) => reasons.get(key) === undefined)
    const refused = [...reasons].flatMap(([name, why]) => (why === undefined ? [] : [{ name, why }]))
    const leftOut = [...read.leftOut, ...refused]
    if (leftOut.length > 0) {
      refuseLeftOut(leftOut, rule, (name) => wasSet(format, name))
      ctx.out.warn(describe(leftOut))
    }
    if (format === 'github') return exportToGithub(ctx, entries, held, requireGithubFile(ctx, flags.output))
    const text = given ?? (await writeText(ctx, format, held, leftOut))
    if (flags.output === undefined || flags.output === '-') {
      await ctx.out.raw(format === 'json' && ctx.terminal.stdout.isTTY ? visibleJson(text) : text)
    } else {
      writePrivateFile(resolve(ctx.cwd, flags.output), text, { isForced: flags.force })
      ctx.out.note(`Wrote ${flags.output}.`)
    }
    if (format === 'dotenv') noteReaders(ctx, text)
  },
})

type Request = {
  readonly format: Format
  readonly rule: NameRule
  readonly only: readonly string[] | undefined
  /** Undefined if references stay as they are stored. */
  readonly onUnresolved: 'error' | 'keep' | 'empty' | undefined
}

type Content = {
  /** The text, if the service has written it. */
  readonly given?: string
  readonly entries: readonly Entry[]
  readonly leftOut: readonly LeftOut[]
}

async function readOne(ctx: Context, request: Request): Promise<Content> {
  const { format, rule } = request
  const environment = requireEnvironmentName(ctx)
  const project = openProject(ctx)
  if (!isOfService(format)) {
    return { entries: entriesOf(await readAnswer(ctx, project, environment, request, { format: 'json' })), leftOut: [] }
  }
  let leftOut: readonly LeftOut[] = []
  const names = format === 'shell' && { allowName: [...rule.names], allowUnsafe: rule.all }
  const answer = await readAnswer(ctx, project, environment, request, { format, ...names }, (found) => {
    leftOut = found.map((name) => ({ name, why: whyNoVariable(name) ?? 'its value contains a NUL' }))
  })
  return { given: textOf(answer), entries: [], leftOut }
}

/** Written here in every format: a source may add a prefix to its names, or replace a secret of another. */
async function readSources(ctx: Context, sources: readonly NamedSource[], request: Request): Promise<Content> {
  // Before any value is read.
  if (request.format === 'k8s') throw kubernetesNeedsOne()
  if (request.onUnresolved === undefined) {
    throw needsOne('--no-resolve', 'in which the references lead somewhere')
  }
  const entries = await mergeValues(ctx, sources, request.only, async (project, environment, only) =>
    Object(await readAnswer(ctx, project, environment, { ...request, only }, { format: 'json' })),
  )
  return { entries, leftOut: [] }
}

type Wanted = Pick<SecretExport, 'allowName' | 'allowUnsafe'> & { readonly format: NonNullable<SecretExport['format']> }

async function readAnswer(
  ctx: Context,
  project: Project,
  environmentId: string,
  { only, onUnresolved }: Pick<Request, 'only' | 'onUnresolved'>,
  wanted: Wanted,
  onLeftOut?: (names: readonly string[]) => void,
): Promise<Answer> {
  const query: SecretExport = {
    environmentId,
    ...wanted,
    ...(only && { key: [...only] }),
    ...(onUnresolved && { resolve: true, onUnresolved }),
  }
  const answer = await explainMissing(project, { environments: [environmentId] }, () =>
    project.api.secret.export(project.path, query, { onResponse: ({ leftOut }) => onLeftOut?.(leftOut) }),
  )
  requireFormat(answer, wanted.format)
  if (isEmpty(answer)) ctx.out.note(withoutSecrets(project.path.ws, project.path.prj, environmentId))
  return answer
}

/** The service writes a comment above each such value. */
function noteReaders({ out }: Context, text: string): void {
  const names = [...text.matchAll(/^# bash, .* do not all read the next value alike: ([\w-]+)$/gm)].map(
    ([, key]) => key,
  )
  if (names.length > 0) {
    out.note(`bash, Node, dotenv and python-dotenv do not all read these values alike: ${names.join(', ')}.`)
  }
}

type Answer = Readonly<Record<string, string>> | string

/** Whatever else answers must not replace a file, or be evaluated by a shell. */
function requireFormat(answer: Answer, format: SecretExport['format']): void {
  const isObject = typeof answer === 'object' && answer !== null && !Array.isArray(answer)
  if (format === 'json' ? isObject : typeof answer === 'string') return
  throw new CliError('failure', 'The answer is not that of a Coffer service: check its address.', 'coffer status')
}

const textOf = (answer: Answer): string =>
  typeof answer === 'string' ? answer : `${JSON.stringify(answer, undefined, 2)}\n`

/** CSV has a header, and a Secret of Kubernetes more than that. */
const isEmpty = (answer: Answer): boolean =>
  typeof answer === 'string'
    ? ['', '{}\n', 'key,value\r\n'].includes(answer) || answer.endsWith('\ndata: {}\n')
    : Object.keys(answer).length === 0

/** Sorted by name, as the service sorts. */
const entriesOf = (answer: Answer): Entry[] => Object.entries(Object(answer))

function requireGithubFile({ env, cwd }: Context, output: string | undefined): string {
  if (output === '-') throw usageError('The format github needs a file: stdout is for the masks.', '--output FILE')
  const path = output ?? env.GITHUB_ENV
  if (!path) throw usageError('GITHUB_ENV is not set: this is no step of GitHub Actions.', '--output FILE')
  return resolve(cwd, path)
}

/** Masks all of them: a later step may print a secret that is no variable too. */
async function exportToGithub(
  { out }: Context,
  entries: readonly Entry[],
  held: readonly Entry[],
  path: string,
): Promise<void> {
  const { randomUUID } = process.getBuiltinModule('node:crypto')
  const text = environmentFile(held, () => `coffer_${randomUUID()}`)
  const { commands, unmasked } = maskCommands(entries)
  // The runner must know the masks before any later step can print a value.
  await out.raw(commands)
  if (unmasked.length > 0) out.warn(`Not masked, because shorter than 6 characters: ${unmasked.join(', ')}.`)
  try {
    appendFileSync(path, `${hasOpenLine(path) ? '\n' : ''}${text}`, { mode: 0o600 })
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new CliError('failure', `${path} cannot be written (${code}).`)
  }
  out.note(`Exported ${held.length} ${held.length === 1 ? 'secret' : 'secrets'} to ${path}.`)
}

/** True after `printf A=1 >> "$GITHUB_ENV"`: the runner would read the first name as a part of that line. */
function hasOpenLine(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true && found.size > 0 && readFileSync(path).at(-1) !== 0x0a
}
