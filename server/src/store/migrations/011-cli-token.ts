/** CLI tokens are created in large numbers and removed some time after they expire. */
export const cliToken = {
  name: 'cli-token',
  statements: [`create index token_cli_end on token (expires_at) where type = 'cli'`],
} as const
