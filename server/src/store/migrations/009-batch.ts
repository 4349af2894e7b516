/**
 * Changes that are made together are recorded together, as reads were before. Versions are found by their environments:
 * an index of them by secrets cost every write and served only the removal of a secret.
 */
export const batch = {
  name: 'batch',
  statements: [`alter table audit_reads rename to audit_batch`, `drop index secret_version_secret`],
} as const
