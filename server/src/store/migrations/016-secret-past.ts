/**
 * Earlier names, notes and types of secrets, so that a client which sends one of them back is told from one that wants it.
 * Fingerprints, not texts: a note that was taken away stays away.
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
