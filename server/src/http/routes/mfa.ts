import { mfaEndpoints } from '@coffer/contract/mfa'
import { confirmTotp, enrolTotp, removeTotp } from '../../domain/account/mfa.ts'
import { type Routes, succeed } from '../route.ts'

export const mfaRoutes: Routes = (serve) => {
  serve(mfaEndpoints.enrolTotp, ({ ctx, body }) => enrolTotp(ctx, body))
  serve(mfaEndpoints.confirmTotp, ({ ctx, body }) => confirmTotp(ctx, body))
  serve(mfaEndpoints.removeTotp, ({ ctx, body }) => succeed(removeTotp(ctx, body)))
}
