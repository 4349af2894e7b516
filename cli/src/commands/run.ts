import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { isSet } from '../environment.ts'
import { CliError, exitCodes, usageError } from '../error.ts'
import { callerEnvironment } from '../invocation.ts'
import { readSettings } from '../place/place.ts'
import { buildEnvironment } from '../run/child-environment.ts'
import { describe, nameRuleOf } from '../run/name-rule.ts'
import { environmentOptionsOf, readOptionsOf, runFlags, splitNames, timesOf } from '../run/options.ts'
import { openSource } from '../run/read-source.ts'
import { raiseSignal } from '../run/signals.ts'
import { isStartError, supervise } from '../run/supervise.ts'
import { listSources, mergeSources, type Source } from '../source/source.ts'

const details = `
The command starts without a shell, with the secrets as environment variables. Secrets take precedence over variables of
the shell; -v says which. COFFER_TOKEN and other credentials of Coffer are not passed on.

Examples:
  coffer run -- npm run dev
  coffer run -e production --watch -- node server.js
  coffer run --only DATABASE_URL -- psql
  coffer run --shell -- 'echo "$GREETING" | tr a-z A-Z'
  coffer run --pristine --preserve-env=PATH,HOME -- env

A secret that is not the name of a variable, or that makes programs run other code (PATH, HOME, NODE_OPTIONS, JAVA_OPTS and
others), is left out, and a line on stderr says so. --allow-name KEY sets it; "allowNames" in .coffer.json lists such names and
counts after coffer trust. Without a terminal, a name that earlier versions have set fails instead, unless --no-strict is given.

Several environments: "sources" in .coffer.json lists them as {"project", "environment", "prefix"}; later ones win.
--project replaces the list, --environment the environment of each source. "run" in the same file has "watch", "redact"
and "required", a list of names without which the command does not start.

Offline: what was read last is kept encrypted, and used with a remark if the service cannot be reached, for 24 hours.
Not in CI, unless COFFER_CACHE=on. A refusal (401, 403, 404) deletes it. COFFER_OFFLINE=1 is --offline, COFFER_CACHE=off is
--no-cache.

--redact replaces values of at least 6 characters by *** in output to files and pipes, also in JSON, base64, hex and URLs.
COFFER_REDACT=1 does the same. It is a seat belt, not a boundary: the command has the values and can print them in any form.

Exit code: that of the command. 125: coffer failed before the start; 126: the command cannot be executed; 127: there is no
such command. If a signal ends the command, it ends coffer too (128 + number for the shell).
`

export const run = defineCommand({
  usage: '[flags] -- command…',
  args: [0, 0],
  takesRest: true,
  failure: 'runFailed',
  flags: runFlags,
  details,
  async run(ctx, { flags, rest }) {
    if (!rest || rest.length === 0) throw usageError('The command is missing.', 'coffer run -- command…')
    const settings = readSettings(ctx)
    const file = settings.file?.content.run
    const read = readOptionsOf(ctx, flags)
    const environmentOptions = environmentOptionsOf(flags, nameRuleOf(ctx, flags, settings), file?.required)
    const isWatching = (flags.watch || file?.watch === true) && !read.isOffline
    if (flags.watch && read.isOffline) throw usageError('--watch needs the service: leave out --offline.')
    const { intervalMs, graceMs } = timesOf(flags)

    const sources = listSources(ctx, settings)
    const opened = await Promise.all(sources.map((source) => openSource(ctx, source, read, settings)))
    const watched = opened.map((one) => ({ opened: one, source: one.source, values: one.snapshot.values }))
    for (const { source, snapshot } of opened) {
      if (Object.keys(snapshot.values).length === 0) await sayEmpty(ctx, source)
    }
    const env = callerEnvironment(ctx.env)
    let said = ''
    const environmentNow = () => {
      const built = buildEnvironment(env, mergeSources(watched), environmentOptions)
      const text = built.leftOut.length === 0 ? '' : describe(built.leftOut)
      if (text !== '' && text !== said) ctx.out.warn(`coffer: ${text}`)
      said = text
      return built
    }
    const environment = environmentNow()
    for (const remark of environment.remarks) ctx.out.detail(`coffer: ${remark}`)

    const isRedacting = flags.redact || file?.redact === true || isSet(ctx.env.COFFER_REDACT)
    const shown = flags.show.flatMap((names) => splitNames(names, '--show'))
    // Loaded only here: code that most runs do not use would slow their start.
    const redaction = isRedacting ? await import('../run/redact/open.ts') : undefined
    const watch = isWatching ? await import('../run/watch.ts') : undefined
    redaction?.maskInGithub(ctx, environment, shown)
    const supervised = supervise({ ...ctx, env }, environment, {
      command: flags.shell ? ['/bin/sh', '-c', rest.join(' ')] : rest,
      graceMs,
      redactorOf: (environment) => redaction?.openRedactor(environment, shown),
    })
    const watching = new AbortController()
    const onChange = () => {
      try {
        const changed = environmentNow()
        redaction?.maskInGithub(ctx, changed, shown)
        supervised.update(changed)
      } catch (error) {
        if (!(error instanceof CliError)) throw error
        ctx.out.warn(`coffer: ${error.message} The command keeps the variables that it has.`)
      }
    }
    watch?.watchSources(ctx, watched, { intervalMs, signal: watching.signal, onChange })
    try {
      const { code, signal } = await supervised.ended
      // At once: nothing is left to do, and an idle connection would have to be closed first.
      process.exit(signal ? raiseSignal(signal) : (code ?? exitCodes.runFailed))
    } catch (error) {
      if (!isStartError(error)) throw error
      ctx.out.warn(`coffer: ${error.message}`)
      return exitCodes[error.exit]
    } finally {
      watching.abort()
    }
  },
})

async function sayEmpty({ out }: Context, { workspace, project, environment, label }: Source): Promise<void> {
  const { withoutSecrets } = await import('../secret/project.ts')
  const isNamed = workspace !== undefined && project !== undefined && environment !== undefined
  out.note(`coffer: ${isNamed ? withoutSecrets(workspace, project, environment) : `${label} has no secrets.`}`)
}
