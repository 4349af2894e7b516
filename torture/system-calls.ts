/** Reads what strace has written, one process and one call a line. */

type Call = { readonly name: string; readonly target: string; readonly rest: string }

export type Found = { readonly acknowledged: number; readonly syncs: number; readonly unsynced: readonly string[] }

/** Acknowledgements of a PUT between whose arrival and whose answer no sync of the log has ended. */
export function findUnsynced(text: string, log: RegExp): Found {
  const arrived = new Map<string, number>()
  const unsynced: string[] = []
  let acknowledged = 0
  let syncs = 0
  for (const { name, target, rest } of callsIn(text)) {
    if ((name === 'fsync' || name === 'fdatasync') && log.test(`${target}>`) && rest.includes('= 0')) syncs++
    if (name === 'read' && rest.includes('"PUT /v1/')) arrived.set(target, syncs)
    if ((name === 'write' || name === 'writev') && rest.includes('HTTP/1.1 200')) {
      const before = arrived.get(target)
      if (before === undefined) continue
      acknowledged++
      if (syncs === before) unsynced.push(`${name}(${target}${rest.slice(0, 100)}`)
      arrived.delete(target)
    }
  }
  return { acknowledged, syncs, unsynced }
}

/** In the order in which they ended; a call that was interrupted by those of others is put together again. */
function* callsIn(text: string): Generator<Call> {
  const begun = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, pid = '', said = ''] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    if (said.endsWith('<unfinished ...>')) {
      begun.set(pid, said.slice(0, -'<unfinished ...>'.length))
      continue
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(said)
    const whole = resumed ? `${begun.get(pid) ?? ''}${resumed[1]}` : said
    const [, name = '', target = '', rest = ''] = /^(\w+)\((\d+<[^>]*)>(.*)$/.exec(whole) ?? []
    if (name !== '') yield { name, target, rest }
  }
}
