/** The register of keys, sealed under the master key; the next start of the service fills it. */
export const keyRegister = {
  name: 'key-register',
  statements: ['alter table instance add column key_register bytea'],
} as const
