/** Parses the output of strace: one process and one call per line. */

type Call = { readonly name: string; readonly target: string; readonly rest: string }

export type Found = { readonly acknowledged: number; readonly syncs: number; readonly unsynced: readonly string[] }

/** Finds PUT requests that were acknowledged without a completed sync of the log since their arrival. */
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

/** Calls in the order of completion; interrupted calls are joined again. */
function* callsIn(text: string): Generator<Call> {
  const begun = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, pid = '', call = ''] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    if (call.endsWith('<unfinished ...>')) {
      begun.set(pid, call.slice(0, -'<unfinished ...>'.length))
      continue
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(call)
    const whole = resumed ? `${begun.get(pid) ?? ''}${resumed[1]}` : call
    const [, name = '', target = '', rest = ''] = /^(\w+)\((\d+<[^>]*)>(.*)$/.exec(whole) ?? []
    if (name !== '') yield { name, target, rest }
  }
}
