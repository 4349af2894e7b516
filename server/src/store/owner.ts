/** Tokens and shares belong to a service account, or else to the person who created them. */
import type { MacField } from '../crypto/row-mac.ts'

type Owned = { readonly createdBy: string; readonly serviceAccountId: string | null }

/** The user or service account whose rights limit what was created. */
export const ownerOf = ({ createdBy, serviceAccountId }: Owned): string => serviceAccountId ?? createdBy

/**
 * Rows of people were signed before this field existed. A node of an older version, which does not know it, finds that
 * the MAC of a service account's row does not match, and refuses the row.
 */
export const ownerField = ({ serviceAccountId }: Owned): MacField[] =>
  serviceAccountId === null ? [] : [serviceAccountId]
