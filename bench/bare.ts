/** The yardstick: a bare node:http server that sends the same bytes to everyone. */
import { createServer } from 'node:http'

const body = process.env.BENCH_BODY ?? '{}'
const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) }

const server = createServer((_request, response) => {
  response.writeHead(200, headers)
  response.end(body)
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(JSON.stringify({ port: typeof address === 'object' && address ? address.port : 0 }))
})
