import pg from 'pg'

/** Ignores connection errors: the server may close the connection first, on a stop or when the database is dropped. */
export async function connectPostgres(url: string | undefined): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => undefined)
  await client.connect()
  return client
}
