/** The commit of a checkout. A build replaces this file by the commit that it is made from (`fixedCommit`). */
import { join } from 'node:path'

/** Its first 12 digits; undefined outside of a checkout. Reads the files of git, which may not be installed. */
export function readCommit(folder: string = import.meta.dirname): string | undefined {
  // The command line imports no module of Node that a command does not need.
  const { readFileSync, statSync } = process.getBuiltinModule('node:fs')
  const read = (path: string) => readFileSync(path, 'utf8').trim()
  try {
    const dot = join(folder, '.git')
    // A second work tree has a file that names its folder, where `commondir` names the first one's.
    const own = statSync(dot).isFile() ? read(dot).replace(/^gitdir: /, '') : dot
    const head = read(join(own, 'HEAD'))
    const name = /^ref: (.+)$/.exec(head)?.[1]
    return (name === undefined ? head : readReference(own, name)).match(/^[0-9a-f]{40,64}$/)?.[0].slice(0, 12)
  } catch {
    return undefined
  }

  function readReference(own: string, name: string): string {
    const folders = [own, ...findCommon(own)]
    for (const one of folders) {
      try {
        return read(join(one, name))
      } catch {
        // Packed, or of the first work tree.
      }
    }
    const packed = read(join(folders.at(-1) ?? own, 'packed-refs')).split('\n')
    return packed.find((line) => line.endsWith(` ${name}`))?.split(' ')[0] ?? ''
  }

  function findCommon(own: string): string[] {
    try {
      return [join(own, read(join(own, 'commondir')))]
    } catch {
      return []
    }
  }
}
