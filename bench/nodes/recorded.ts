/** Counts recorded requests and their commits in the database of the nodes, and adds a second counter to the heads. */
import pg from 'pg'

export type Recorded = { readonly requests: number; readonly commits: number }
export type RequestRecord = {
  /** Requests that share a commit share one row of the audit trail. */
  count(): Promise<Recorded>
  /** Advances another number without gaps in the row of the head, in the same transaction as the audit trail. */
  setCounter(isOn: boolean): Promise<void>
  close(): Promise<void>
}

const tables = `
  create table least_head (id integer primary key, sequence bigint not null);
  insert into least_head values (1, 0);
  create table least_row (id bigint generated always as identity primary key, requests integer, entries text);
  alter table audit_head add column event_sequence bigint not null default 0;
  create function count_events() returns trigger language plpgsql as $$ begin
    new.event_sequence := old.event_sequence + new.sequence - old.sequence;
    return new;
  end $$;
  create trigger count_events before update on audit_head for each row execute function count_events();
  alter table audit_head disable trigger count_events`

const counts = `
  select (select coalesce(sum(sequence), 0) from audit_head) + (select coalesce(sum(requests), 0) from least_row) as requests,
    (select count(*) from audit_entry) + (select count(*) from audit_batch) + (select count(*) from least_row) as commits`

export async function openRecord(connectionString: string): Promise<RequestRecord> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query(tables)
  return {
    async count() {
      const [row] = (await client.query(counts)).rows
      return { requests: Number(row.requests), commits: Number(row.commits) }
    },
    async setCounter(isOn) {
      await client.query(`alter table audit_head ${isOn ? 'enable' : 'disable'} trigger count_events`)
    },
    close: () => client.end(),
  }
}
