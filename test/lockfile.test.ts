/** The lock holds what every platform installs, not only the one on which it was made. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

type Locked = { readonly optionalDependencies?: Record<string, string> }

const lockfile = join(import.meta.dirname, '..', 'package-lock.json')
const { packages }: { packages: Record<string, Locked> } = JSON.parse(readFileSync(lockfile, 'utf8'))

/** Packages are found as Node finds them: beside the one that needs it, then in each folder above. */
function isLocked(name: string, from: string): boolean {
  const parts = from.split('/node_modules/')
  const folders = parts.map((_, index) => parts.slice(0, parts.length - index).join('/node_modules/'))
  return [...folders, ''].some((folder) => `${folder}${folder && '/'}node_modules/${name}` in packages)
}

test('every optional package of a locked package is locked too, for all platforms', () => {
  const optional = Object.entries(packages).flatMap(([from, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ name, from })),
  )
  // Native packages of the builder, the linter, argon2 and PostgreSQL; without them the check would prove nothing.
  expect(optional.length).toBeGreaterThan(50)
  expect(optional.filter(({ name, from }) => !isLocked(name, from))).toEqual([])
})
