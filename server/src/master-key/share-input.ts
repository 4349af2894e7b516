/** Reads shares one line at a time: from the terminal without echo, or from stdin. Lines are bytes, so they can be wiped. */
import type { ReadStream } from 'node:tty'
import { MasterKeyError, NoSharesError } from './error.ts'

type ShareInput = {
  /** Undefined at the end of the input, or for an empty line at a terminal. */
  next(question: string): Promise<Buffer | undefined>
  /** A word about the last share, for a person. */
  say(sentence: string): void
  close(): void
}

const maxBytes = 1_024
const [backspace, interrupt, endOfText, lineFeed, carriageReturn] = [0x7f, 0x03, 0x04, 0x0a, 0x0d]

export function openShareInput(stdin: ReadStream = process.stdin): ShareInput {
  const isTerminal = stdin.isTTY === true
  let line = Buffer.alloc(maxBytes)
  let length = 0
  let hasEnded = false
  const lines: Buffer[] = []
  let wake: (() => void) | undefined

  function endLine(): void {
    lines.push(Buffer.from(line.subarray(0, length)))
    line.fill(0)
    length = 0
  }

  function take(byte: number): void {
    if (byte === lineFeed || byte === carriageReturn) endLine()
    else if (isTerminal && byte === interrupt) {
      close()
      process.exit(130)
    } else if (isTerminal && byte === endOfText) hasEnded = true
    else if (isTerminal && byte === backspace) length = Math.max(0, length - 1)
    else if (length < maxBytes) line[length++] = byte
  }

  const onData = (chunk: Buffer) => {
    for (const byte of chunk) take(byte)
    chunk.fill(0)
    wake?.()
  }
  const onEnd = () => {
    if (length > 0) endLine()
    hasEnded = true
    wake?.()
  }
  if (isTerminal) stdin.setRawMode(true)
  stdin.on('data', onData).once('end', onEnd)

  function close(): void {
    stdin.off('data', onData).off('end', onEnd).pause()
    if (isTerminal) stdin.setRawMode(false)
    line.fill(0)
    line = Buffer.alloc(0)
    for (const left of lines.splice(0)) left.fill(0)
  }

  return {
    async next(question) {
      if (isTerminal) process.stderr.write(question)
      while (true) {
        const found = lines.shift()
        if (isTerminal && found) process.stderr.write('\n')
        // Programs may end a file with empty lines; a person ends with one.
        if (found && (isTerminal || found.some((byte) => byte > 0x20))) return found.length > 0 ? found : undefined
        if (!found && hasEnded) return undefined
        if (!found) await new Promise<void>((resolve) => (wake = resolve))
      }
    },
    say: (sentence) => void process.stderr.write(`${sentence}\n`),
    close,
  }
}

export const tooFewShares = (given: number, threshold: number | undefined) =>
  new (given === 0 ? NoSharesError : MasterKeyError)(
    `The master key is split: hand ${threshold ?? 'enough'} shares, one per line on stdin or at a terminal; ${given} came.`,
  )
