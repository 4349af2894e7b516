/** Blocks of code in the pages for users, and a shell in which they run one after the other, as somebody types them. */
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

type PageBlock = {
  /** The nearest heading above, without its signs. */
  readonly section: string
  /** Empty if the block names none. */
  readonly language: string
  /** Ends with a line break. */
  readonly code: string
}

export function blocksOf(page: string): PageBlock[] {
  const found: PageBlock[] = []
  const text = readFileSync(join(root, page), 'utf8')
  let section = ''
  for (const [, heading, language = '', code = ''] of text.matchAll(/^#+ (.+)$|^```(\w*)\n([\s\S]*?)^```$/gm)) {
    if (heading !== undefined) section = heading
    else found.push({ section, language, code })
  }
  return found
}

type Shell = {
  /** Variables and functions stay for the next script. Throws with the output if a command fails. */
  run(script: string): Promise<string>
  /** Ends the shell and everything that it has started. */
  end(): Promise<void>
}

/** Bash in a folder, which gets a file for each script. */
export function openShell(folder: string, env: NodeJS.ProcessEnv): Shell {
  const child = spawn('bash', ['-e'], { cwd: folder, env, detached: true, stdio: 'pipe' })
  // Not `close`: what it has started may still hold its output.
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.stdin.on('error', () => undefined)
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
  }
  let count = 0
  return {
    async run(script) {
      const name = join(folder, `block-${++count}.sh`)
      const end = `\nend of block ${count}\n`
      writeFileSync(name, script)
      printed = ''
      // A command that reads its input must not get the next script.
      child.stdin.write(`source '${name}' < /dev/null\nprintf '${end.replaceAll('\n', '\\n')}'\n`)
      const hasPrinted = new Promise<void>((resolve) => {
        child.stdout.on('data', function look() {
          if (!printed.includes(end)) return
          child.stdout.off('data', look)
          resolve()
        })
      })
      await Promise.race([hasPrinted, ended])
      if (!printed.includes(end)) throw new Error(`A command of this block failed:\n${script}\n${printed}`)
      return printed.replace(end, '')
    },
    async end() {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // The group has ended already.
      }
      await ended
    },
  }
}
