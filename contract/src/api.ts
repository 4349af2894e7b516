/** The endpoint table: every endpoint under /v1, each exactly once. */
import { accessEndpoints } from './access.ts'
import { auditEndpoints } from './audit.ts'
import { authEndpoints } from './auth.ts'
import { deviceEndpoints } from './device.ts'
import { emailEndpoints } from './email.ts'
import type { Endpoint } from './endpoint.ts'
import { environmentEndpoints } from './environment.ts'
import { historyEndpoints } from './history.ts'
import { inviteEndpoints } from './invite.ts'
import { meEndpoints } from './me.ts'
import { memberEndpoints } from './member.ts'
import { mfaEndpoints } from './mfa.ts'
import { oidcEndpoints } from './oidc.ts'
import { policyEndpoints } from './policy.ts'
import { projectEndpoints } from './project.ts'
import { secretEndpoints } from './secret.ts'
import { secretFileEndpoints } from './secret-file.ts'
import { secretReminderEndpoints } from './secret-reminder.ts'
import { secretSearchEndpoints } from './secret-search.ts'
import { serviceAccountEndpoints } from './service-account.ts'
import { shareEndpoints } from './share.ts'
import { syncEndpoints } from './sync.ts'
import { teamEndpoints } from './team.ts'
import { tokenEndpoints } from './token.ts'
import { workspaceEndpoints } from './workspace.ts'

export const endpoints = {
  ...authEndpoints,
  ...deviceEndpoints,
  ...meEndpoints,
  ...emailEndpoints,
  ...mfaEndpoints,
  ...workspaceEndpoints,
  ...policyEndpoints,
  ...memberEndpoints,
  ...inviteEndpoints,
  ...teamEndpoints,
  ...projectEndpoints,
  ...environmentEndpoints,
  ...secretEndpoints,
  ...secretFileEndpoints,
  ...secretReminderEndpoints,
  ...secretSearchEndpoints,
  ...historyEndpoints,
  ...shareEndpoints,
  ...syncEndpoints,
  ...tokenEndpoints,
  ...serviceAccountEndpoints,
  ...oidcEndpoints,
  ...accessEndpoints,
  ...auditEndpoints,
} as const satisfies Record<string, Endpoint>

export type EndpointName = keyof typeof endpoints
