/** Questions to the person at the terminal. The library is loaded only when something is asked. */
import type { Context } from './context.ts'
import { CliError, usageError } from './error.ts'

type Asked = {
  /** The question, such as `Password`. */
  readonly message: string
  /** What to do where nobody can be asked, printed after `try:`. */
  readonly hint: string
}

type Prompts = typeof import('@clack/prompts')

/** Refuses where nobody can answer: a script must end, not hang. */
async function openPrompts({ terminal }: Context, { message, hint }: Asked): Promise<Prompts> {
  if (!terminal.isInteractive) throw usageError(`There is nobody to ask here: ${message}`, hint)
  // Terminals of containers and of tests may have no size; the library would write one letter on each line.
  terminal.stderr.columns ||= 80
  terminal.stderr.rows ||= 24
  return import('@clack/prompts')
}

export async function askText(
  ctx: Context,
  asked: Asked & { readonly initial?: string; readonly check?: (text: string) => string | undefined },
): Promise<string> {
  const prompts = await openPrompts(ctx, asked)
  const answer = prompts.text({
    message: asked.message,
    ...(asked.initial !== undefined && { initialValue: asked.initial }),
    validate: (text) => asked.check?.(text ?? ''),
    output: ctx.terminal.stderr,
  })
  return answered(ctx, prompts, answer)
}

/** Shows a mask instead of the letters. */
export async function askHidden(
  ctx: Context,
  asked: Asked & { readonly check?: (text: string) => string | undefined },
): Promise<string> {
  const prompts = await openPrompts(ctx, asked)
  const { stdin, stderr: output } = ctx.terminal
  let hasLines = false
  // Text that is pasted comes at once, and the library takes one line of it for the answer.
  const look = (typed: Buffer | string) => {
    hasLines ||= /[\r\n][^\r\n]/.test(String(typed))
  }
  stdin.on('data', look)
  try {
    const { message, check } = asked
    const answer = prompts.password({ message, validate: (text) => check?.(text ?? ''), output })
    const text = await answered(ctx, prompts, answer)
    if (hasLines) throw usageError('The answer is one line, and you pasted several.', asked.hint)
    return text
  } finally {
    stdin.off('data', look)
  }
}

/** `initial` is the answer of the Enter key: no, unless it is given. */
export async function confirm(ctx: Context, asked: Asked & { readonly initial?: boolean }): Promise<boolean> {
  const prompts = await openPrompts(ctx, asked)
  const { message, initial = false } = asked
  return answered(ctx, prompts, prompts.confirm({ message, initialValue: initial, output: ctx.terminal.stderr }))
}

/** `initial` is the answer of the Enter key: the first option, unless it is given. */
export async function choose<Value extends string>(
  ctx: Context,
  asked: Asked & {
    readonly options: readonly { readonly value: Value; readonly label: string }[]
    readonly initial?: Value
  },
): Promise<Value> {
  const prompts = await openPrompts(ctx, asked)
  const answer = prompts.select<string>({
    message: asked.message,
    options: asked.options.map(({ value, label }) => ({ value: value as string, label })),
    ...(asked.initial !== undefined && { initialValue: asked.initial }),
    output: ctx.terminal.stderr,
  })
  // One of the given options.
  return (await answered(ctx, prompts, answer)) as Value
}

/** Ctrl-C and Ctrl-D at a question end the command. After Ctrl-D the library never answers, and nothing is left to do. */
async function answered<Answer>(
  { terminal }: Context,
  prompts: Prompts,
  asked: Promise<Answer>,
): Promise<Exclude<Answer, symbol>> {
  let leave = () => {}
  const left = new Promise<undefined>((resolve) => {
    leave = () => resolve(undefined)
  })
  process.once('beforeExit', leave)
  const answer = await Promise.race([asked.then((given) => ({ given })), left])
  process.off('beforeExit', leave)
  // The library has hidden the cursor.
  if (!answer) terminal.stderr.write('\u001b[?25h\n')
  if (!answer || prompts.isCancel(answer.given)) throw new CliError('cancelled', 'Cancelled.')
  return answer.given as Exclude<Answer, symbol>
}
