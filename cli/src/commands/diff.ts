import type { Diff } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { exitCodes, usageError } from '../error.ts'
import { explainMissing, openProject } from '../secret/project.ts'
import { cellOf } from '../secret/value.ts'

export const diff = defineCommand({
  usage: 'FROM TO',
  args: [2, 2],
  findsPlace: true,
  flags: {
    values: { type: 'boolean', about: 'Show the values too, as they are stored' },
    'exit-code': { type: 'boolean', about: 'End with exit code 1 if there is a difference' },
  },
  details: `
FROM and TO are each an environment, an environment at a revision (ENV@12), or an environment at a time
(ENV@2026-01-31T12:00:00Z; without a zone the time is local). Secrets that only TO has are added, those that only FROM
has are removed.

Examples:
  coffer diff staging production
  coffer diff production@12 production --values
  coffer diff production@2026-01-31 production --exit-code`,
  async run(ctx, { flags, args }) {
    const [from, to] = args.map(parseState)
    if (!from || !to) throw usageError('Give FROM and TO.')
    const project = openProject(ctx)
    const environments = [from, to].map(({ environment }) => environment)
    const found = await explainMissing(project, { environments, missing: 'There is no such revision.' }, () =>
      project.api.secret.diff(project.path, { from: from.text, to: to.text, ...(flags.values && { values: true }) }),
    )
    ctx.out.show(found, () => diffTable(ctx, found, flags.values))
    const count = found.added.length + found.removed.length + found.changed.length
    ctx.out.note(`${count} ${count === 1 ? 'difference' : 'differences'}, ${found.same.length} the same.`)
    return flags['exit-code'] && count > 0 ? exitCodes.failure : exitCodes.ok
  },
})

type State = { readonly environment: string; readonly text: string }

/** Names of environments hold no `@`. The service wants times with a zone. */
function parseState(argument: string): State {
  const [environment = '', point, ...more] = argument.split('@')
  if (environment === '' || point === '' || more.length > 0) {
    throw usageError('An environment is written as NAME, NAME@REVISION or NAME@TIME.')
  }
  if (point === undefined || /^\d{1,10}$/.test(point)) return { environment, text: argument }
  // A date alone would otherwise be midnight in UTC, and a date with a time local.
  const time = new Date(/^\d{4}-\d\d-\d\d$/.test(point) ? `${point}T00:00` : point)
  if (!isDay(point.slice(0, 10)) || Number.isNaN(time.getTime())) {
    throw usageError('The text after @ must be a revision or a time such as 2026-01-31T12:00:00Z.')
  }
  return { environment, text: `${environment}@${time.toISOString()}` }
}

/** JavaScript takes February 30 for March 2. */
function isDay(text: string): boolean {
  const day = new Date(`${text}T00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text)
}

function diffTable(ctx: Context, { added, removed, changed, values }: Diff, hasValues: boolean) {
  const actions = new Map([
    ...added.map((key) => [key, 'added'] as const),
    ...removed.map((key) => [key, 'removed'] as const),
    ...changed.map((key) => [key, 'changed'] as const),
  ])
  const side = (key: string, name: 'from' | 'to') => cellOf(ctx, values?.[key]?.[name] ?? '')
  const rows = [...actions]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, action]) => [action, key, ...(hasValues ? [side(key, 'from'), side(key, 'to')] : [])])
  return { columns: ['change', 'name', ...(hasValues ? ['from', 'to'] : [])], rows }
}
