/** The yardstick: a bare node:http server that reads what it is sent and sends the same bytes to everyone. */
import { createServer } from 'node:http'

const body = process.env.BENCH_BODY ?? '{}'
const isNotModified = process.env.BENCH_STATUS === '304'
const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) }

const server = createServer((request, response) => {
  if (request.method === 'GET') return answer()
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    JSON.parse(Buffer.concat(chunks).toString())
    answer()
  })

  function answer(): void {
    if (isNotModified) response.writeHead(304).end()
    else response.writeHead(200, headers).end(body)
  }
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(JSON.stringify({ port: typeof address === 'object' && address ? address.port : 0 }))
})
