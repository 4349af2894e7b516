/** Grants in words, such as `developer:shop/staging`. */
import type { Grant, Role } from '@coffer/sdk'
import { usageError } from '../error.ts'
import { openPlaces, scopeWords } from '../token/scope.ts'
import type { Workspace } from '../token/token.ts'

export const roles = ['member', 'developer', 'admin'] as const

export const grantWords = 'ROLE:PLACE'
export const grantHelp = `ROLE is member, developer or admin; PLACE is ${scopeWords}, or several with commas between them.`

type Grants = {
  /** The grants that the words name. */
  parse(words: readonly string[]): Promise<Grant[]>
  describe(grants: readonly Grant[]): Promise<string>
}

export async function openGrants({ api, ws }: Workspace): Promise<Grants> {
  const places = await openPlaces(api, ws)
  return {
    async parse(words) {
      const grants: Grant[] = []
      for (const word of words) {
        const [, role = '', list = ''] = /^([^:]*):(.*)$/s.exec(word) ?? []
        grants.push({ role: requireRole(role), scope: await places.parse(list.split(','), '--grant') })
      }
      return grants
    },
    async describe(grants) {
      const texts: string[] = []
      for (const { role, scope } of grants)
        texts.push(`${role}:${(await places.describe(scope)).replaceAll(', ', ',')}`)
      return texts.join(' ')
    },
  }
}

function requireRole(word: string): Role {
  const role = roles.find((one) => one === word)
  if (!role) throw usageError(`--grant must be ${grantWords}.`, '--grant developer:shop/staging')
  return role
}
