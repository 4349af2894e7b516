/**
 * What a migration may contain, so that nodes of the version before go on working beside it (CONTRIBUTING.md, "Add a
 * migration"). Whatever earlier migrations created is in use by an old node. Everything that is not allowed is forbidden.
 */
export type Step = { readonly name: string; readonly statement: string }

type Known = {
  readonly tables: Set<string>
  readonly uniqueIndexes: Set<string>
}
/** What the migration itself has created so far. */
type Fresh = { readonly tables: Set<string>; readonly columns: Set<string>; readonly emptyColumns: Set<string> }

const migrationOf = ({ name }: Step) => name.replace(/-\d+$/, '')

/** Returns the broken rules of the steps from `first` on, each with the name of its step. */
export function findBrokenRules(steps: readonly Step[], first = 0): string[] {
  const known: Known = { tables: new Set(), uniqueIndexes: new Set() }
  const broken: string[] = []
  const migrations = new Set(steps.map(migrationOf))
  for (const migration of migrations) {
    const fresh: Fresh = { tables: new Set(), columns: new Set(), emptyColumns: new Set() }
    for (const [at, step] of steps.entries()) {
      if (migrationOf(step) !== migration) continue
      for (const text of step.statement.split(';').map(plain).filter(Boolean)) {
        const problem = check(text, known, fresh)
        if (problem !== undefined && at >= first) broken.push(`${step.name}: ${problem}`)
      }
    }
    for (const table of fresh.tables) known.tables.add(table)
  }
  return broken
}

const plain = (statement: string) => statement.toLowerCase().replace(/\s+/g, ' ').trim()

type Rule = readonly [
  pattern: RegExp,
  check: (parts: readonly string[], known: Known, fresh: Fresh) => string | undefined,
]

const rules: readonly Rule[] = [
  [/^create table (\w+) \((.*)\)$/, createTable],
  [/^alter table (\w+) add column (\w+) (.*)$/, addColumn],
  [/^create unique index (\w+) on (\w+) \((.*?)\)( where .*)?$/, createUniqueIndex],
  [/^create index (\w+) on (\w+) \(.*\)( where .*)?$/, () => undefined],
  [/^drop index (\w+)$/, dropIndex],
  [/^insert into (\w+) /, insertRows],
  [/^update (\w+) set (\w+) = (?!.*, \w+ =)/, updateRows],
]

function check(text: string, known: Known, fresh: Fresh): string | undefined {
  for (const [pattern, rule] of rules) {
    const match = pattern.exec(text)
    if (match) return rule(match.slice(1), known, fresh)
  }
  return `"${text.slice(0, 60)}" is no allowed statement`
}

function createTable([table = '', body = '']: readonly string[], known: Known, fresh: Fresh): string | undefined {
  if (known.tables.has(table)) return `the table ${table} exists`
  fresh.tables.add(table)
  return blockedDelete(body, known)
}

function addColumn([table = '', column = '', rest = '']: readonly string[], known: Known, fresh: Fresh) {
  const isRequired = /\bnot null\b/.test(rest)
  const hasDefault = /\bdefault\b/.test(rest)
  fresh.columns.add(`${table}.${column}`)
  if (!isRequired && !hasDefault) fresh.emptyColumns.add(`${table}.${column}`)
  if (!known.tables.has(table)) return undefined
  if (isRequired && !hasDefault) return `an old node cannot insert into ${table}: ${column} needs a default`
  const constraint = /\b(unique|primary key|check|generated)\b/.exec(rest)?.[1]
  if (constraint !== undefined) return `an old node may break "${constraint}" of ${table}.${column}`
  return blockedDelete(rest, known)
}

/** An old node deletes rows without knowing what refers to them. Root keys are only deleted by a rotation: see docs/upgrade.md. */
function blockedDelete(text: string, known: Known): string | undefined {
  const references = text.matchAll(/references (\w+)(?: \([^)]*\))?( on delete (?:cascade|set null))?/g)
  for (const [, table = '', rule] of references) {
    if (known.tables.has(table) && table !== 'root_key' && rule === undefined) {
      return `an old node cannot delete from ${table}: say "on delete cascade" or "on delete set null"`
    }
  }
  return undefined
}

function createUniqueIndex([index = '', table = '', columns = '']: readonly string[], known: Known, fresh: Fresh) {
  known.uniqueIndexes.add(index)
  if (!known.tables.has(table)) return undefined
  // Rows of an old node have null there, and nulls are distinct.
  const isSafe = columns.split(',').some((column) => fresh.emptyColumns.has(`${table}.${column.trim()}`))
  return isSafe ? undefined : `an old node may write rows that ${index} forbids`
}

function dropIndex([index = '']: readonly string[], { uniqueIndexes }: Known): string | undefined {
  return uniqueIndexes.has(index) ? `an old node may rely on ${index} in "on conflict"` : undefined
}

function insertRows([table = '']: readonly string[], known: Known): string | undefined {
  return known.tables.has(table) ? `an old node does not expect new rows in ${table}` : undefined
}

function updateRows([table = '', column = '']: readonly string[], known: Known, fresh: Fresh): string | undefined {
  const isOwn = !known.tables.has(table) || fresh.columns.has(`${table}.${column}`)
  return isOwn ? undefined : `an old node does not expect that ${table}.${column} changes`
}
