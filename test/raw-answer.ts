/** Checks of raw responses: every one has the headers of the service, and an error is a message and nothing else. */
import { expect } from 'vitest'
import { type RawAnswer, sendRaw } from './raw-socket.ts'

export async function sendOne(url: string, bytes: string | Buffer): Promise<RawAnswer> {
  const answers = await sendRaw(url, bytes)
  expect(answers).toHaveLength(1)
  const [answer] = answers
  if (!answer) throw new Error('no answer')
  return answer
}

/** Returns the message of an error. */
export function checkForm(answer: RawAnswer, isApi: boolean): string {
  const where = JSON.stringify({ ...answer, headers: [...answer.headers] })
  expect(answer.headers.get('x-request-id'), where).toMatch(/^[\w-]{8,}$/)
  if (isApi) {
    expect(answer.headers.get('cache-control'), where).toBe('no-store')
    for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']) {
      expect(answer.headers.get(name), where).toMatch(/^\d+$/)
    }
  }
  if (answer.status < 400) return ''
  expect(answer.headers.get('content-type'), where).toBe('application/json; charset=utf-8')
  const body: Record<string, unknown> = JSON.parse(answer.body)
  expect(Object.keys(body), where).toEqual(['message'])
  expect(body.message, where).toMatch(/^[A-Za-z_].*\.$/)
  return String(body.message)
}
