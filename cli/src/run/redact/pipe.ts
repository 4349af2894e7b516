/** Copies an output stream of the child to our own, without the values. */
import { write as writeTo } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Redactor } from './redactor.ts'

/** A prompt that happens to end like a value begins must appear all the same. */
const holdMs = 50
/** After the end of the command, a process that it has left behind may still hold the stream open. */
const idleMs = 1_000
/** A reader that is behind is tried again after this time. */
const busyMs = 10

export type Pipe = {
  /** Resolves when everything that the command has written is out. Call it when the command has ended. */
  finish(): Promise<void>
}

export function pipeRedacted(source: Readable, fd: number, redactor: Redactor): Pipe {
  const stream = redactor.openStream()
  const { Writable } = process.getBuiltinModule('node:stream')
  // Writes in a thread: a slow reader must not keep this process from forwarding signals.
  const target = new Writable({ write: (bytes, _, done) => writeAll(fd, bytes, done) })
  let hold: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined
  let idle: NodeJS.Timeout | undefined
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })

  function write(pieces: readonly Buffer[]): void {
    if (pieces.length === 0 || target.write(Buffer.concat(pieces))) return
    source.pause()
    target.once('drain', () => source.resume())
  }

  source.on('data', (chunk: Buffer) => {
    idle?.refresh()
    write(stream.push(chunk))
    const heldAt = stream.heldAt()
    if (hold?.at === heldAt) return
    clearTimeout(hold?.timer)
    hold = heldAt === undefined ? undefined : { at: heldAt, timer: setTimeout(release, holdMs, heldAt) }
  })
  // Reads first what has arrived by now: this process may have been slow, and not the command.
  const release = (at: number) => {
    setImmediate(() => {
      if (hold?.at !== at) return
      // While our reader is behind, the rest of a value may wait unread.
      if (source.isPaused()) {
        hold = { at, timer: setTimeout(release, holdMs, at) }
        return
      }
      hold = undefined
      write(stream.release())
    })
  }
  source.on('error', () => undefined)
  source.once('close', () => {
    clearTimeout(hold?.timer)
    hold = undefined
    write(stream.release())
    if (target.destroyed) end()
    else target.end(end)
  })
  // Our reader has gone: so has that of the command.
  target.on('error', () => {
    source.destroy()
    end()
  })

  return {
    async finish() {
      // A source that waits for our reader is not idle.
      const check = () => (target.writableNeedDrain ? idle?.refresh() : source.destroy())
      idle = setTimeout(check, idleMs)
      await ended
      clearTimeout(idle)
    },
  }
}

/** The stream does not wait if somebody who shares it has said so, such as this process with the masks for GitHub. */
function writeAll(fd: number, bytes: Buffer, done: (error?: Error) => void): void {
  writeTo(fd, bytes, (error, written) => {
    if (error?.code === 'EAGAIN') setTimeout(writeAll, busyMs, fd, bytes, done)
    else if (error) done(error)
    else if (written < bytes.length) writeAll(fd, bytes.subarray(written), done)
    else done()
  })
}
