/**
 * Earlier names, notes and types of secrets, to distinguish a client that sends back old data from one that wants the
 * change. Stored as fingerprints, so that a deleted note stays deleted.
 */
export const secretPast = {
  name: 'secret-past',
  statements: [
    `create table secret_past (
       secret_id text not null references secret (id) on delete cascade,
       field text not null,
       fingerprint text not null,
       primary key (secret_id, field, fingerprint)
     )`,
  ],
} as const
