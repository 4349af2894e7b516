import type { AccessActor } from '@coffer/sdk'

export const actorKind = {
  user: 'person',
  service: 'service account',
  token: 'token',
  oidc: 'identity',
} as const satisfies Record<AccessActor['type'], string>
