/** Gets a session of type `cli` for a person: by the browser if it has a page for that, else at the terminal. */
import type { Api, AuthState, DeviceCode } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { visible } from '../output/table.ts'
import { hasPage, openPage } from './browser.ts'
import { collectSession, createDeviceCode, waitForApproval } from './device.ts'
import { type Wanted as Here, signInAtTerminal } from './terminal-login.ts'

type Connect = (credential: string | null) => Api

type Wanted = Here & { readonly noBrowser: boolean }

export async function signIn(ctx: Context, connect: Connect, state: AuthState, wanted: Wanted): Promise<string> {
  const { email, noBrowser } = wanted
  if (!state.needsSetup && email === undefined) {
    const code = await createDeviceCode(connect(null))
    const isPage = await hasPage(code.verificationUri)
    if (isPage && (await showCode(ctx, code, noBrowser))) return waitInBrowser(ctx, connect(null), code)
    ctx.out.note(
      isPage
        ? 'No browser can be opened; the login goes on here.'
        : `There is no page at ${visible(code.verificationUri)}; the login goes on here.`,
    )
  }
  return signInHere(ctx, connect, state, wanted)
}

/** False if the page could not be opened. Whoever wants no browser here opens the page elsewhere. */
async function showCode(ctx: Context, code: DeviceCode, noBrowser: boolean): Promise<boolean> {
  if (!noBrowser && !(await openPage(ctx.env, code.verificationUriComplete))) return false
  const page = visible(noBrowser ? code.verificationUriComplete : code.verificationUri)
  ctx.out.warn(noBrowser ? `Open this page in a browser: ${page}` : `A browser opens ${page}`)
  ctx.out.warn(`It must show this code: ${visible(code.userCode)}`)
  return true
}

async function waitInBrowser(ctx: Context, api: Api, code: DeviceCode): Promise<string> {
  const progress = ctx.out.progress('Waiting for your approval in the browser; Ctrl-C stops it.')
  const sleep = (durationMs: number) => new Promise<void>((resolve) => setTimeout(resolve, durationMs))
  try {
    return await waitForApproval(api, code, { now: ctx.now, sleep })
  } finally {
    progress.end()
  }
}

/** The browser session lasts only until it has approved the code of this program. */
async function signInHere(ctx: Context, connect: Connect, state: AuthState, wanted: Here): Promise<string> {
  const { accessToken } = await signInAtTerminal(ctx, connect(null), state, wanted)
  const api = connect(accessToken)
  try {
    const code = await createDeviceCode(api)
    await api.auth.answerDevice({ userCode: code.userCode, approve: true })
    return await collectSession(api, code)
  } finally {
    await api.auth.logout({ timeoutMs: 5_000 }).catch(() => {
      ctx.out.detail('The browser session of this login could not be ended; it ends by itself.')
    })
  }
}
