import pg from 'pg'

/** A connection for a test. The server may end it first, by a stop or by dropping the database: that fails its queries alone. */
export async function connectPostgres(url: string | undefined): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => undefined)
  await client.connect()
  return client
}
