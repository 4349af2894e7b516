/** Principals hold grants: members, and service accounts in the shape of a member. */
import type { ReadStore } from '../store/store.ts'
import type { Member } from '../store/workspace/member.ts'
import type { ServiceAccount } from '../store/workspace/service-account.ts'
import { type Rights, toRights } from './grant.ts'

export type Principal = {
  readonly member: Member
  readonly rights: Rights
  /** Undefined for a person. */
  readonly serviceAccount?: ServiceAccount
}

export const principalOf = (member: Member): Principal => ({ member, rights: toRights(member.grants) })

export function servicePrincipal(serviceAccount: ServiceAccount): Principal {
  const { id, workspaceId, grants, createdAt } = serviceAccount
  const member = { id, workspaceId, userId: id, isOwner: false, grants, createdAt }
  return { ...principalOf(member), serviceAccount }
}

/** Reads the store, not the snapshot. `id` is that of a user or of a service account. */
export async function findStoredPrincipal(
  store: ReadStore,
  id: string,
  workspaceId: string,
): Promise<Principal | undefined> {
  const member = await store.members.findOfUser(id, workspaceId)
  if (member) return principalOf(member)
  const account = await store.serviceAccounts.find(id, workspaceId)
  return account && servicePrincipal(account)
}
