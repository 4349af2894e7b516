/**
 * Finds out whether personal values of the caller would get into a resolved value: the service uses them wherever a
 * reference leads to one, and cannot be asked not to.
 */
import { ApiError, type SecretRow } from '@coffer/sdk'
import type { Project } from '../secret/project.ts'

/** Longer chains are not followed, and count as personal. */
const maxReads = 50
const reference = /\$\$\{|\$\{([A-Za-z0-9 _.-]{1,353})\}/g

type Place = { readonly environment: string; readonly key: string }

/** Also true if it cannot be told, such as for a reference to another project. */
export async function leadsToPersonal(project: Project, first: Place): Promise<boolean> {
  const seen = new Set<string>()
  const left = [first]
  for (let place = left.pop(); place; place = left.pop()) {
    const name = `${place.environment}.${place.key}`
    if (seen.has(name)) continue
    seen.add(name)
    if (seen.size > maxReads) return true
    const values = await readValues(project, place)
    const isFirst = place === first
    if (!isFirst && values.some(({ isPersonal }) => isPersonal)) return true
    const text = values.find(({ isPersonal }) => !isPersonal)?.value ?? ''
    for (const [, body] of text.matchAll(reference)) {
      if (body === undefined) continue
      const [key = '', environment = place.environment, ...more] = body.split('.').reverse()
      if (more.length > 0) return true
      left.push({ environment, key })
    }
  }
  return false
}

/** Nothing for a secret that does not exist: its reference stays as it is. */
async function readValues(project: Project, { environment, key }: Place): Promise<readonly SecretRow[]> {
  try {
    return (await project.api.secret.read({ ...project.path, key }, { environmentId: environment })).values
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return []
    throw error
  }
}
