import { meEndpoints } from '@coffer/contract/me'
import { readMe, readPreferences, updateMe, updatePreferences } from '../../domain/account/me.ts'
import { changePassword } from '../../domain/account/password.ts'
import { listSessions, revokeOtherSessions, revokeSession } from '../../domain/account/session.ts'
import { type Routes, succeed } from '../route.ts'

export const meRoutes: Routes = (serve) => {
  serve(meEndpoints.readMe, ({ ctx }) => readMe(ctx))
  serve(meEndpoints.updateMe, ({ ctx, body }) => succeed(updateMe(ctx, body)))
  serve(meEndpoints.readPreferences, ({ ctx }) => readPreferences(ctx))
  serve(meEndpoints.updatePreferences, ({ ctx, body }) => updatePreferences(ctx, body))
  serve(meEndpoints.changePassword, ({ ctx, body }) => succeed(changePassword(ctx, body)))
  serve(meEndpoints.listSessions, ({ ctx }) => listSessions(ctx))
  serve(meEndpoints.revokeSession, ({ ctx, params }) => succeed(revokeSession(ctx, params.id)))
  serve(meEndpoints.revokeOtherSessions, ({ ctx }) => succeed(revokeOtherSessions(ctx)))
}
