/**
 * The minimum cost of a durable write: a node:http server without authentication, lookups or validation. It encrypts
 * the value, stores it with its version and a hashed, signed audit entry, batches concurrent writes into one commit,
 * and waits for the disk.
 */
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { fdatasyncSync, openSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { asKey, associatedData, newKey, seal } from '../server/src/crypto/envelope.ts'
import { newId } from '../server/src/crypto/id.ts'

type Write = { readonly value: string; readonly response: ServerResponse }

const [, , answerFile = ''] = process.argv
const { headers }: { headers: Record<string, string> } = JSON.parse(readFileSync(answerFile, 'utf8'))
const path = join(dirname(answerFile), 'least.db')
const database = new DatabaseSync(path)
// Same setup as the service: SQLite does not sync by itself, and one fdatasync per commit follows below.
database.exec(`
  pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 0;
  create table value (environment text, secret text, version integer, sealed blob, primary key (environment, secret));
  create table version (environment text, secret text, version integer, revision integer, name text, sealed blob, at integer,
    author text, primary key (environment, secret, version));
  create index version_revision on version (environment, revision);
  create table entry (sequence integer primary key, details text, hash blob, signature blob)`)
const log = openSync(`${path}-wal`, 'r')

const begin = database.prepare('begin immediate')
const commit = database.prepare('commit')
const checkpoint = database.prepare('pragma wal_checkpoint(passive)')
const addVersion = database.prepare('insert into version values (?, ?, ?, ?, ?, ?, ?, ?)')
const putValue = database.prepare('insert or replace into value values (?, ?, ?, ?)')
const addEntry = database.prepare('insert into entry values (?, ?, ?, ?)')
const commitsPerCheckpoint = 300

const key = asKey(newKey())
const { privateKey } = generateKeyPairSync('ed25519')
const [environment, secret] = [newId(), newId()]
let version = 0
let commits = 0
let hash: Uint8Array = new Uint8Array(32)
let waiting: Write[] = []

function writeAll(): void {
  const writes = waiting
  waiting = []
  const at = Date.now()
  begin.run()
  let sealed: Uint8Array = hash
  const changes = writes.map(({ value }) => {
    version++
    sealed = seal(key, 1, associatedData('secret-value', environment, secret, version), Buffer.from(value))
    addVersion.run(environment, secret, version, version, 'SECRET_0', sealed, at, 'The owner')
    return { id: newId(), at, key: 'SECRET_0', status: 'updated', version }
  })
  putValue.run(environment, secret, version, sealed)
  const details = JSON.stringify(changes)
  hash = createHash('sha256').update(hash).update(details).digest()
  addEntry.run(version, details, hash, sign(null, hash, privateKey))
  commit.run()
  fdatasyncSync(log)
  if (++commits % commitsPerCheckpoint === 0) checkpoint.get()
  for (const [index, { response }] of writes.entries()) {
    const body = JSON.stringify({ success: true, version: version - writes.length + 1 + index })
    response.writeHead(200, { ...headers, 'content-length': body.length }).end(body)
  }
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    if (waiting.length === 0) setImmediate(writeAll)
    waiting.push({ value: JSON.parse(Buffer.concat(chunks).toString()).value, response })
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  console.log(JSON.stringify({ port: typeof address === 'object' && address ? address.port : 0 }))
})
