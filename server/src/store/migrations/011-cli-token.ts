/** Tokens for command lines are made by the dozen, and removed a while after they have ended. */
export const cliToken = {
  name: 'cli-token',
  statements: [`create index token_cli_end on token (expires_at) where type = 'cli'`],
} as const
