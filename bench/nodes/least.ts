/**
 * The minimum cost of a recorded request on PostgreSQL: a node:http server without authentication, lookups or encryption.
 * Requests that arrive together share one commit. `lock`: commits of several processes take turns at one row. `free`: they
 * do not. `forward`: the target is another such process, which records the requests of both.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, createServer, request as openRequest, type ServerResponse } from 'node:http'
import pg from 'pg'

const [, , answerFile = '', target = '', order = ''] = process.argv
type Answer = { readonly status: number; readonly headers: Record<string, string>; readonly body: string }
const { status, headers, body }: Answer = JSON.parse(readFileSync(answerFile, 'utf8'))

/** About the size of an audit entry. */
const entry = 'x'.repeat(200)
type Waiting = { readonly count: number; readonly response: ServerResponse }
let waiting: Waiting[] = []
let isRunning = false

const recordTogether = order === 'forward' ? forwardTo(target) : await commitTo(target, order === 'lock')

async function drain(): Promise<void> {
  while (waiting.length > 0) {
    let taken: Waiting[] = []
    await recordTogether(() => {
      taken = waiting
      waiting = []
      return taken.reduce((sum, { count }) => sum + count, 0)
    })
    for (const { response } of taken) response.writeHead(status, headers).end(body)
  }
  isRunning = false
}

type RecordTogether = (take: () => number) => Promise<void>

async function commitTo(connectionString: string, isLocking: boolean): Promise<RecordTogether> {
  const client = new pg.Client({ connectionString, pipeline: true })
  await client.connect()
  const lock = { name: 'lock', text: 'select sequence from least_head where id = 1 for update' }
  const move = { name: 'move', text: 'update least_head set sequence = sequence + $1 where id = 1' }
  const insert = { name: 'insert', text: 'insert into least_row (requests, entries) values ($1, $2)' }
  return async (take) => {
    await Promise.all([client.query('begin'), ...(isLocking ? [client.query(lock)] : [])])
    const count = take()
    await Promise.all([
      client.query({ ...insert, values: [count, entry.repeat(count)] }),
      ...(isLocking ? [client.query({ ...move, values: [count] })] : []),
      client.query('commit'),
    ])
  }
}

function forwardTo(url: string): RecordTogether {
  const agent = new Agent({ keepAlive: true })
  return async (take) => {
    const count = take()
    const sent = openRequest(url, { agent, method: 'POST', headers: { 'x-count': String(count) } })
    sent.end(entry.repeat(count))
    const [answer] = await once(sent, 'response')
    await once(answer.resume(), 'end')
  }
}

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    waiting.push({ count: Number(request.headers['x-count'] ?? 1), response })
    if (isRunning) return
    isRunning = true
    setImmediate(drain)
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(JSON.stringify({ port: typeof address === 'object' && address ? address.port : 0 }))
})
