/** Opens $VISUAL or $EDITOR and waits until it ends. */
import { spawn } from 'node:child_process'
import { basename } from 'node:path'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'

export function requireEditor({ env }: Context): string {
  const editor = env.VISUAL?.trim() || env.EDITOR?.trim()
  if (!editor) throw usageError('There is no editor: EDITOR is not set.', 'export EDITOR=nano')
  return editor
}

/** Vim would keep what was copied or deleted in ~/.viminfo, and undo files and backups beside its settings. */
const vimFlags = ['-n', '-i', 'NONE', '-c', 'set nobackup nowritebackup noundofile']

const flagsOf = (editor: string): readonly string[] =>
  /^([ng]?vim|vim\..+)$/.test(basename(editor.split(/\s+/)[0] ?? '')) ? vimFlags : []

/** Words as in `code --wait`; a command with quotes or variables goes through the shell, as with git. */
function commandOf(editor: string, path: string): [string, string[]] {
  const args = [...flagsOf(editor), path]
  if (/[|&;<>()$`\\"'*?[\]#~=%]/.test(editor)) return ['/bin/sh', ['-c', `${editor} "$@"`, 'editor', ...args]]
  const [program = '', ...words] = editor.split(/\s+/)
  return [program, [...words, ...args]]
}

export async function runEditor({ terminal, env }: Context, editor: string, path: string): Promise<void> {
  const stdout = terminal.stdout.isTTY === true ? 'inherit' : terminal.stderr
  const child = spawn(...commandOf(editor, path), { stdio: ['inherit', stdout, 'inherit'], env })
  const stop = () => void child.kill('SIGTERM')
  // Ctrl-C in a terminal reaches the editor by itself; many editors use it.
  const interrupt = () => {
    if (terminal.stdin.isTTY !== true) child.kill('SIGINT')
  }
  const others = process.listeners('SIGINT')
  // Never without a listener: Node would drop a signal that is on its way to the last one.
  process.on('SIGINT', interrupt)
  for (const other of others) process.off('SIGINT', other)
  process.on('exit', stop)
  try {
    const { code, signal } = await new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
      child.once('error', ({ code }: NodeJS.ErrnoException) =>
        reject(new CliError('failure', `The editor cannot be started (${code ?? 'unknown'}).`, 'export EDITOR=nano')),
      )
      child.once('exit', (code, signal) => resolve({ code, signal }))
    })
    if (signal === 'SIGINT' || code === 130) throw new CliError('cancelled', 'Cancelled.')
    if (code !== 0)
      throw new CliError('failure', `The editor ended with ${signal ?? `exit code ${code}`}: nothing was changed.`)
  } finally {
    process.off('exit', stop)
    for (const other of others) process.on('SIGINT', other)
    process.off('SIGINT', interrupt)
  }
}
