/** The reference server: bare node:http that reads the request body and sends every client the same bytes. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

type Answer = { readonly status: number; readonly headers: Record<string, string>; readonly body: string }
const { status, headers, body }: Answer = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))

const server = createServer((request, response) => {
  if (request.method === 'GET') return answer()
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    if (chunks.length > 0) JSON.parse(Buffer.concat(chunks).toString())
    answer()
  })

  function answer(): void {
    response.writeHead(status, headers).end(body)
  }
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(JSON.stringify({ port: typeof address === 'object' && address ? address.port : 0 }))
})
