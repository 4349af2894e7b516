/** Reads the imports of source files, type imports included, and finds cycles. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

type Import = { readonly from: string; readonly to: string; readonly isType: boolean }
/** An import between files or folders. */
type Edge = readonly [from: string, to: string]

export function listFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !name.includes('node_modules'))
    .map((name) => join(folder, name))
}

export function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8')
  const pattern = /(?:^|\n)\s*(?:import|export)\s+(?:[^'"`;]*?from\s+)?'([^']+)'|import\('([^']+)'\)/g
  return [...text.matchAll(pattern)].map((match) => ({
    from: file,
    to: match[1] ?? match[2] ?? '',
    isType: /^\s*(?:import|export)\s+type\s/.test(match[0]),
  }))
}

/** The files that each file loads. Each is read once, since most are loaded with many others. */
const loads = new Map<string, readonly string[]>()

function loadsOf(file: string): readonly string[] {
  const known = loads.get(file)
  if (known) return known
  const found = edgesOf(importsOf(file).filter(({ isType }) => !isType)).map(([, to]) => to)
  // Some tests hold sources in strings, which import files that are not there.
  const there = found.filter((path) => existsSync(path))
  loads.set(file, there)
  return there
}

/** The file itself, and all files of the repository that are loaded with it. Type imports load nothing. */
export function filesLoadedBy(file: string): string[] {
  const loaded = new Set<string>()
  const due = [file]
  for (const next of due) {
    if (loaded.has(next)) continue
    loaded.add(next)
    due.push(...loadsOf(next))
  }
  return [...loaded]
}

export function edgesOf(imports: readonly Import[]): Edge[] {
  return imports
    .filter(({ to }) => to.startsWith('.'))
    .map(({ from, to }) => [from, resolve(dirname(from), to)] as const)
}

/** Imports between different subfolders of `folder`; files directly in `folder` are ignored. */
export function edgesBetweenFolders(edges: readonly Edge[], folder: string): Edge[] {
  const subfolderOf = (file: string) => {
    const [subfolder = '', ...rest] = relative(folder, file).split(sep)
    return rest.length > 0 && subfolder !== '..' ? subfolder : undefined
  }
  return edges.flatMap(([from, to]): Edge[] => {
    const [one, other] = [subfolderOf(from), subfolderOf(to)]
    return one !== undefined && other !== undefined && one !== other ? [[one, other]] : []
  })
}

export function findCycles(edges: readonly Edge[]): string[][] {
  const uses = Map.groupBy(edges, ([from]) => from)
  const cycles: string[][] = []
  const done = new Set<string>()
  function visit(node: string, path: readonly string[]): void {
    if (path.includes(node)) cycles.push([...path.slice(path.indexOf(node)), node])
    if (path.includes(node) || done.has(node)) return
    for (const [, next] of uses.get(node) ?? []) visit(next, [...path, node])
    done.add(node)
  }
  for (const node of uses.keys()) visit(node, [])
  return cycles
}
