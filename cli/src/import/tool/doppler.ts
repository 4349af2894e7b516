/** Doppler: `doppler secrets --json`, and `doppler secrets download --format json`, which is a flat object. */
import { cannotImport } from '../entry.ts'
import { isRecord, isText, type Json, type JsonRecord } from '../json.ts'
import type { Tool } from './tool.ts'

/** Doppler adds these to every export; they say where it comes from. */
const ownNames = ['DOPPLER_CONFIG', 'DOPPLER_ENVIRONMENT', 'DOPPLER_PROJECT']

export const doppler: Tool = {
  format: 'doppler',
  name: 'Doppler',
  recognises: ([only, ...others]) => {
    if (others.length > 0 || !isRecord(only)) return false
    return isDetailed(only) || (isFlat(only) && ownNames.every((name) => name in only))
  },
  read([only, ...others]) {
    if (others.length > 0 || !isRecord(only)) return undefined
    if (!isDetailed(only) && !isFlat(only)) return undefined
    const own = ownNames.filter((name) => name in only)
    const entries = Object.entries(only).filter(([name]) => !own.includes(name))
    const restricted = entries.filter(([, entry]) => computedOf(entry) === undefined)
    if (restricted.length > 0) {
      const names = restricted.map(([name]) => name)
      throw cannotImport('Doppler restricts these secrets, so the export has no value for them', names)
    }
    return {
      secrets: entries.map(([name, entry]) => ({
        path: [name],
        value: computedOf(entry) ?? '',
        ...(isRecord(entry) && isText(entry.note) && { note: entry.note }),
      })),
      leftOut: own.map((name) => `${name} (Doppler's own)`),
    }
  },
}

const isFlat = (value: JsonRecord): boolean => Object.values(value).every(isText)

const isDetailed = (value: JsonRecord): boolean =>
  Object.keys(value).length > 0 &&
  Object.values(value).every((entry) => isRecord(entry) && ('computed' in entry || 'raw' in entry))

/** `computed` has the references of Doppler resolved. */
function computedOf(entry: Json): string | undefined {
  const value = isRecord(entry) ? ('computed' in entry ? entry.computed : entry.raw) : entry
  return isText(value) ? value : undefined
}
