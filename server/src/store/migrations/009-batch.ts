/**
 * Changes made together are now recorded together, as reads already were. Versions are found through their
 * environments: the index by secret slowed every write and served only the removal of a secret.
 */
export const batch = {
  name: 'batch',
  statements: [`alter table audit_reads rename to audit_batch`, `drop index secret_version_secret`],
} as const
