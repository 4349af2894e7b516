import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { whyNoVariable } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { CliError, usageError } from '../../error.ts'
import { askHidden } from '../../prompt.ts'
import { writeBatch } from '../../secret/batch.ts'
import { explainMissing, openProject, parseCount, requireEnvironmentNames, requireName } from '../../secret/project.ts'
import { showResults } from '../../secret/result.ts'
import { readStdin } from '../../stdin.ts'

export const set = defineCommand({
  usage: 'KEY[=VALUE]…',
  args: [0, 10_000],
  findsPlace: true,
  flags: {
    stdin: { type: 'boolean', about: 'Read the value of the one KEY without =VALUE from stdin' },
    'from-file': { type: 'list', value: 'KEY=PATH', about: 'Read a value from a file, byte for byte; repeatable' },
    personal: { type: 'boolean', about: 'Your own value, which only you see' },
    note: { type: 'string', value: 'TEXT', about: 'Set the note of these secrets; notes are not encrypted' },
    message: { type: 'string', short: 'm', value: 'TEXT', about: 'Why; shown in the history' },
    'if-version': { type: 'string', value: 'N', about: 'Only if the value is at this version; 0: if there is none' },
  },
  details: `
Writes all keys in one step, or none. Prints names and versions, never values.
A KEY without =VALUE is asked for, hidden. Arguments are visible to other users of the machine while the command runs
and stay in the history of the shell: prefer the question, --stdin or --from-file for real secrets.
--stdin removes the line break after a single line, as from echo; text of several lines stays as it is.

Examples:
  coffer secrets set DATABASE_PASSWORD
  pass show db | coffer secrets set DATABASE_PASSWORD --stdin
  coffer secrets set --from-file TLS_KEY=key.pem --from-file TLS_CERT=cert.pem
  coffer secrets set LOG_LEVEL=debug PORT=8080 -e development,staging -m 'more logs'
  coffer secrets set FLAG=on --if-version 4`,
  async run(ctx, { flags, args }) {
    const environments = requireEnvironmentNames(ctx)
    const project = openProject(ctx)
    const values = await collectValues(ctx, args, flags['from-file'], flags.stdin)
    const ifVersion = flags['if-version'] === undefined ? undefined : parseCount(flags['if-version'], '--if-version', 0)
    if (ifVersion !== undefined && (values.size > 1 || environments.length > 1)) {
      throw usageError('--if-version takes one KEY and one environment.')
    }
    const operations = environments.flatMap((environmentId) =>
      [...values].map(([key, value]) => ({
        op: 'set' as const,
        key,
        value,
        environmentId,
        ...(flags.note !== undefined && { note: flags.note }),
        ...(flags.personal && { isPersonal: true }),
        ...(ifVersion !== undefined && { ifVersion }),
      })),
    )
    const written = await explainMissing(project, { environments }, () =>
      writeBatch(project, {
        operations,
        ...(flags.message !== undefined && { message: flags.message }),
      }),
    )
    await showResults(ctx, project, written)
    const created = new Set(written.results.filter(({ status }) => status === 'created').map(({ key }) => key))
    for (const name of created) {
      const why = whyNoVariable(name)
      if (why !== undefined) ctx.out.warn(`${name}: ${why}, so coffer run and export -f shell leave it out.`)
    }
  },
})

async function collectValues(
  ctx: Context,
  args: readonly string[],
  files: readonly string[],
  isStdin: boolean,
): Promise<Map<string, string>> {
  refuseSeparated(args)
  const given = args.map(splitPair)
  const fromFiles = files.map(splitPair)
  const names = [...given, ...fromFiles].map(({ key }) => key)
  if (names.length === 0) throw usageError('A KEY is missing.', 'coffer secrets set KEY')
  if (new Set(names).size < names.length) throw usageError('A KEY is given twice.')
  const open = given.filter(({ text }) => text === undefined)
  if (isStdin && open.length !== 1)
    throw usageError('--stdin needs one KEY without =VALUE.', 'coffer secrets set KEY --stdin')
  if (given.some(({ text }) => text)) hideArguments(ctx)
  const values = new Map<string, string>()
  for (const { key, text } of given)
    values.set(key, text ?? (isStdin ? await valueOfStdin(ctx, key) : await askValue(ctx, key)))
  for (const { key, text } of fromFiles) {
    if (!text) throw usageError('--from-file needs KEY=PATH.', '--from-file KEY=PATH')
    values.set(key, readValue(ctx, text))
  }
  return values
}

/** `PORT 5000` would ask for the values of two secrets. Never quotes the second: it is a value. */
function refuseSeparated(args: readonly string[]): void {
  const index = args.findIndex((argument, at) => at > 0 && /^\d[^=]*$/.test(argument) && !args[at - 1]?.includes('='))
  if (index < 0) return
  const key = requireName(args[index - 1] ?? '')
  throw usageError(`The value of ${key} follows after =, without a space.`, `coffer secrets set ${key}=VALUE`)
}

type Pair = { readonly key: string; readonly text: string | undefined }

function splitPair(argument: string): Pair {
  const equals = argument.indexOf('=')
  if (equals < 0) return { key: requireName(argument), text: undefined }
  return { key: requireName(argument.slice(0, equals)), text: argument.slice(equals + 1) }
}

/** Overwrites the arguments in the list of processes. They were visible until now, and the shell remembers them. */
function hideArguments({ out }: Context): void {
  process.title = 'coffer'
  out.note('A value in the arguments can be seen by others on this machine and stays in the history of the shell.')
  out.note('try: leave out =VALUE, or use --stdin')
}

const askValue = (ctx: Context, key: string): Promise<string> =>
  askHidden(ctx, {
    message: `Value of ${key}`,
    hint: `coffer secrets set ${key} --stdin`,
    check: (text) => (text === '' ? `Type a value; for an empty one: coffer secrets set ${key}=` : undefined),
  })

async function valueOfStdin(ctx: Context, key: string): Promise<string> {
  const text = await readStdin(ctx)
  // What a command that failed leaves in a pipe must not replace a value.
  if (text === '') throw usageError('There is nothing on stdin.', `coffer secrets set ${key}= for an empty value`)
  return /^[^\r\n]*\r?\n$/.test(text) ? text.replace(/\r?\n$/, '') : text
}

function readValue(ctx: Context, path: string): string {
  let bytes: Buffer
  try {
    bytes = readFileSync(resolve(ctx.cwd, path))
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new CliError('usage', `${path} cannot be read (${code}).`)
  }
  const text = bytes.toString('utf8')
  if (!Buffer.from(text, 'utf8').equals(bytes)) throw usageError(`${path} is not UTF-8 text.`, 'base64 it first')
  return text
}
