/** Reads all of stdin. */
import type { Context } from './context.ts'
import { usageError } from './error.ts'

/** As large as the largest body that the service accepts. */
const maxBytes = 8 * 1024 * 1024

export async function readStdin({ terminal, out }: Context): Promise<string> {
  if (terminal.stdin.isTTY) out.note('Reading from the terminal; end with Ctrl-D.')
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of terminal.stdin) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > maxBytes) throw usageError('The input is larger than 8 MiB.')
    chunks.push(bytes)
  }
  const text = Buffer.concat(chunks).toString('utf8')
  if (!Buffer.from(text, 'utf8').equals(Buffer.concat(chunks))) throw usageError('The input is not UTF-8 text.')
  return text
}
