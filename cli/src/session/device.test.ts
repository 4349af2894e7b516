/** Polling for the approval of a device login. */
import { createApi } from '@coffer/sdk'
import { expect, test } from 'vitest'
import { json, type Respond, startScripted, testClock } from '../../../test/sdk-service.ts'
import { waitForApproval } from './device.ts'

const code = {
  deviceCode: 'the-code-of-the-device',
  userCode: 'ABCD-EFGH',
  verificationUri: '',
  verificationUriComplete: '',
}
const pending = json(400, { error: 'authorization_pending' })
const slowDown = json(400, { error: 'slow_down' })
const approved = json(200, { accessToken: 'session', tokenType: 'Bearer', expiresIn: 60 })
const broken: Respond = (response) => response.destroy()

async function poll(...script: Respond[]) {
  const { url, requests } = await startScripted(...script)
  const clock = testClock()
  const api = createApi({ url, credential: null, retries: 0 })
  const { now, sleep } = clock.platform
  const wait = waitForApproval(
    api,
    { ...code, expiresIn: 60, interval: 5 },
    { now, sleep: (ms) => sleep(ms, undefined) },
  )
  const outcome = await wait.catch((error: Error) => error)
  return { outcome, sleeps: clock.sleeps, requests }
}

test('waits the interval before each request, and longer once it is told to slow down', async () => {
  const { outcome, sleeps } = await poll(pending, slowDown, pending, approved)
  expect(outcome).toBe('session')
  expect(sleeps).toEqual([5_000, 5_000, 10_000, 10_000])
})

test('survives a restart of the service and a rate limit', async () => {
  const limited = json(429, { message: 'Rate limit exceeded.' }, { 'retry-after': '20' })
  const { outcome, sleeps } = await poll(broken, json(503, { message: 'x' }), limited, approved)
  expect(outcome).toBe('session')
  expect(sleeps).toEqual([5_000, 5_000, 5_000, 20_000])
})

test('stops when the code expires, by the clock of this machine or by the word of the service', async () => {
  const ended = { message: 'The code has expired: nobody has approved it.', exit: 'notSignedIn' }
  const { outcome, requests } = await poll(pending)
  expect(outcome).toMatchObject(ended)
  expect(requests.length).toBe(11)
  expect((await poll(json(400, { error: 'expired_token' }))).outcome).toMatchObject(ended)
})

test('stops after a denial, and after an answer that it does not know', async () => {
  expect((await poll(json(400, { error: 'access_denied' }))).outcome).toMatchObject({ exit: 'forbidden' })
  expect((await poll(json(400, { message: 'clientId: is wrong.' }))).outcome).toMatchObject({ status: 400 })
  expect((await poll(json(200, 'x', { 'content-type': 'text/html' }))).outcome).toMatchObject({
    message: 'The answer is not JSON.',
  })
})
