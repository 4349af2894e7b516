import { emailEndpoints } from '@coffer/contract/email'
import { changeEmail, confirmEmail, verifyEmail } from '../../domain/account/email-confirmation.ts'
import { type Routes, succeed } from '../route.ts'

export const emailRoutes: Routes = (serve) => {
  serve(emailEndpoints.verifyEmail, ({ ctx }) => succeed(verifyEmail(ctx)))
  serve(emailEndpoints.confirmEmail, ({ ctx, body }) => succeed(confirmEmail(ctx, body)))
  serve(emailEndpoints.changeEmail, ({ ctx, body }) => succeed(changeEmail(ctx, body)))
}
