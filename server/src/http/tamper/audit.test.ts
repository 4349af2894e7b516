/** An audit trail that was tampered with in the database fails its verification, at the first broken entry. */
import { createHash } from 'node:crypto'
import type { AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTeam, type TestService, type TestUser } from '../../../../test/harness.ts'
import { flip, type RawDatabase, type RawRow } from '../../../../test/raw-database.ts'
import { createTamperedWorkspaces, unknownRoot } from '../../../../test/tampered-workspace.ts'
import { canonicalEntry, hashEntry } from '../../store/audit/entry.ts'

const { start, stop, invalidateAll, one } = createTamperedWorkspaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let stranger: TestUser
let mainId: string
let strangeId: string

beforeAll(async () => {
  ;({ service, raw, owner, stranger, mainId, strangeId } = await start())
})
afterAll(stop)

let attempts = 0

describe('a tampered audit trail', () => {
  let verdict: AuditVerdict
  let length: number

  const verify = async () => {
    const answer = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const entry = (sequence: number) =>
    one('select * from audit_entry where chain_id = ? and sequence = ?', [mainId, sequence])
  const insert = (row: RawRow) => {
    const columns = Object.keys(row)
    return raw.query(`insert into audit_entry (${columns}) values (${columns.map(() => '?')})`, Object.values(row))
  }
  const setHead = (columns: RawRow) =>
    raw.query(`update audit_head set ${Object.keys(columns).map((column) => `${column} = ?`)} where chain_id = ?`, [
      ...Object.values(columns),
      mainId,
    ])
  /** Hashes like the service does: an attacker can do so too, because the hash has no key. */
  const rehashed = (row: RawRow, previous: string): RawRow => {
    const text = (name: string) => String(row[name])
    const maybe = (name: string) => (row[name] === null ? null : text(name))
    const hash = hashEntry(
      previous,
      canonicalEntry({
        chainId: text('chain_id'),
        sequence: Number(row.sequence),
        id: text('id'),
        at: Number(row.at),
        actorType: text('actor_type'),
        actorId: text('actor_id'),
        actorName: text('actor_name'),
        action: text('action'),
        entityType: text('entity_type'),
        entityId: text('entity_id'),
        entityName: text('entity_name'),
        projectId: maybe('project_id'),
        environmentId: maybe('environment_id'),
        ip: text('ip'),
        userAgent: text('user_agent'),
        requestId: text('request_id'),
        outcome: text('outcome'),
        details: text('details'),
      }),
    )
    return { ...row, hash }
  }
  /** Rewrites the chain from an entry on with matching hashes, and the head with it. */
  async function rewriteFrom(sequence: number, change: (row: RawRow) => RawRow): Promise<void> {
    let previous = String((await entry(sequence - 1)).hash)
    for (let at = sequence; at <= length; at++) {
      const row = rehashed(at === sequence ? change(await entry(at)) : await entry(at), previous)
      await raw.query('delete from audit_entry where chain_id = ? and sequence = ?', [mainId, at])
      await insert(row)
      previous = String(row.hash)
    }
    await setHead({ hash: previous })
  }
  const restoring = (work: () => Promise<unknown>) => raw.restoring(['audit_entry', 'audit_head'], work)

  beforeAll(async () => {
    invalidateAll()
    for (let made = 0; made < 20; made++) await createTeam(service, owner.session, `Team ${made}`)
    await createTeam(service, owner.session, 'Audited')
    verdict = await verify()
    length = verdict.entries
  })

  test('differs from an untouched trail', async () => {
    expect(verdict).toEqual({ ok: true, entries: length, head: (await entry(length)).hash })
    expect(length).toBeGreaterThan(20)
  })

  test.each([
    'id',
    'at',
    'actor_type',
    'actor_id',
    'actor_name',
    'action',
    'entity_type',
    'entity_id',
    'entity_name',
    'project_id',
    'environment_id',
    'ip',
    'user_agent',
    'request_id',
    'outcome',
    'details',
    'hash',
  ])('is detected: %s of an entry', async (column) => {
    for (const sequence of [1, 7, length]) {
      await restoring(async () => {
        const value = column === 'at' ? 1 : column === 'details' ? '{"after":{}}' : 'changed'
        const where = 'where chain_id = ? and sequence = ?'
        await raw.query(`update audit_entry set ${column} = ? ${where}`, [value, mainId, sequence])
        expect(await verify()).toMatchObject({ ok: false, entries: sequence - 1, firstBroken: sequence })
      })
    }
    expect(await verify()).toEqual(verdict)
  })

  test('is detected: an entry deleted', async () => {
    for (const sequence of [1, 2, 9, length - 1, length]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence = ?', [mainId, sequence])
        expect(await verify()).toMatchObject({ ok: false, firstBroken: sequence, reason: 'Entries are missing.' })
      })
    }
  })

  test('is detected: an entry deleted and the later ones renumbered', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 5', [mainId])
      for (let at = 6; at <= length; at++) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at - 1, mainId, at])
      }
      await setHead({ sequence: length - 1 })
      expect(await verify()).toMatchObject({ ok: false, entries: 4, firstBroken: 5 })
    })
  })

  test('is detected: two entries swapped', async () => {
    const swap = async (one: number, other: number) => {
      for (const [from, to] of [
        [one, -1],
        [other, one],
        [-1, other],
      ]) {
        const values = [to ?? 0, mainId, from ?? 0]
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', values)
      }
    }
    for (const [one, other] of [
      [3, 4],
      [1, length],
      [length - 1, length],
    ] as const) {
      await restoring(async () => {
        await swap(one, other)
        expect(await verify()).toMatchObject({ ok: false, entries: one - 1, firstBroken: one })
      })
    }
  })

  test('is detected: an entry inserted in the middle', async () => {
    await restoring(async () => {
      const row = await entry(5)
      for (let at = length; at >= 5; at--) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at + 1, mainId, at])
      }
      await insert(rehashed({ ...row, action: 'VIEW' }, String((await entry(4)).hash)))
      await setHead({ sequence: length + 1 })
      const found = await verify()
      // The inserted entry itself matches its place; the next one does not match it.
      expect(found).toMatchObject({ ok: false, entries: 5, firstBroken: 6 })
    })
  })

  test('is detected: an inserted entry that does not match its place', async () => {
    await restoring(async () => {
      const row = await entry(5)
      for (let at = length; at >= 5; at--) {
        await raw.query('update audit_entry set sequence = ? where chain_id = ? and sequence = ?', [at + 1, mainId, at])
      }
      await insert(row)
      await setHead({ sequence: length + 1 })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: 6 })
    })
  })

  test('is detected: an entry added after the end, with or without the head', async () => {
    const added = async () => {
      const last = await entry(length)
      return rehashed({ ...last, sequence: length + 1, id: unknownRoot }, String(last.hash))
    }
    await restoring(async () => {
      const row = await added()
      await insert(row)
      await setHead({ sequence: length + 1, hash: row.hash ?? null })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length + 1 })
    })
    await restoring(async () => {
      await insert(await added())
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length + 1 })
    })
  })

  test('is detected: an entry of another workspace in its place', async () => {
    await restoring(async () => {
      const foreign = await one('select * from audit_entry where chain_id = ? and sequence = 1', [strangeId])
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 1', [mainId])
      await insert({ ...foreign, chain_id: mainId })
      expect(await verify()).toMatchObject({ ok: false, firstBroken: 1 })
    })
  })

  test('is detected: the tail cut off', async () => {
    for (const left of [0, 1, length - 1]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, left])
        expect(await verify()).toMatchObject({ ok: false, entries: left, firstBroken: left + 1 })
      })
    }
  })

  test('is detected: the tail cut off, and the head set back to the remaining entries', async () => {
    for (const left of [1, 5, length - 1]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, left])
        await setHead({ sequence: left, hash: (await entry(left)).hash ?? null })
        expect(await verify()).toMatchObject({ ok: false, firstBroken: left })
      })
    }
  })

  test('is detected: all entries deleted, with or without the head', async () => {
    const emptyHash = '0'.repeat(64)
    for (const erase of [
      () => setHead({ sequence: 0, hash: emptyHash, signature: null, key_id: null }),
      () => raw.query('delete from audit_head where chain_id = ?', [mainId]),
    ]) {
      await restoring(async () => {
        await raw.query('delete from audit_entry where chain_id = ?', [mainId])
        await erase()
        expect(await verify()).toMatchObject({ ok: false, entries: 0, firstBroken: 1 })
      })
    }
  })

  test('is detected: the head deleted, with all entries present', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_head where chain_id = ?', [mainId])
      expect((await verify()).ok).toBe(false)
    })
  })

  test.each<[string, () => Promise<RawRow>]>([
    ['hash', async () => ({ hash: createHash('sha256').update('x').digest('hex') })],
    ['signature of zeros', async () => ({ signature: Buffer.alloc(64) })],
    ['no signature', async () => ({ signature: null })],
    ['no key', async () => ({ key_id: null })],
    ['an unknown key', async () => ({ key_id: unknownRoot })],
    ['the signing key of JWTs', async () => ({ key_id: service.app.services.keys.signer('jwt').id })],
    [
      'the signature of another chain',
      async () => one('select signature, key_id from audit_head where chain_id = ?', [strangeId]),
    ],
  ])('is detected: %s in the head', async (_what, columns) => {
    await restoring(async () => {
      await setHead(await columns())
      expect(await verify()).toMatchObject({ ok: false, entries: length, firstBroken: length })
    })
  })

  test('is detected: any byte of the signature', async () => {
    const { signature } = await one('select signature from audit_head where chain_id = ?', [mainId])
    await restoring(async () => {
      for (let at = 0; at < 64; at++) {
        await setHead({ signature: flip(signature, at) })
        expect(await verify()).toMatchObject({ ok: false, firstBroken: length })
      }
    })
  })

  test('is detected: history rewritten with matching hashes', async () => {
    await restoring(async () => {
      await rewriteFrom(5, (row) => ({ ...row, actor_name: 'somebody@example.com' }))
      expect(await verify()).toMatchObject({ ok: false, firstBroken: length })
    })
  })

  describe('stays detected after later entries:', () => {
    const act = () =>
      service.call('POST', '/v1/workspace/main/team', { token: owner.session, body: { name: `Later ${++attempts}` } })

    test('the tail cut off, and the head set back', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await raw.query('delete from audit_entry where chain_id = ? and sequence > ?', [mainId, length - 3])
        await setHead({ sequence: length - 3, hash: (await entry(length - 3)).hash ?? null })
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })

    test('history rewritten with matching hashes', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await rewriteFrom(5, (row) => ({ ...row, actor_name: 'somebody@example.com' }))
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })

    test('all entries deleted', async () => {
      await raw.restoring(['audit_entry', 'audit_head', 'team'], async () => {
        await raw.query('delete from audit_entry where chain_id = ?', [mainId])
        await raw.query('delete from audit_head where chain_id = ?', [mainId])
        await act()
        expect((await verify()).ok).toBe(false)
      })
      invalidateAll()
    })
  })

  test('does not affect the trails of other workspaces', async () => {
    await restoring(async () => {
      await raw.query('delete from audit_entry where chain_id = ? and sequence = 3', [mainId])
      const path = '/v1/workspace/strange/audit/verify'
      const other = await service.call<AuditVerdict>('GET', path, { token: stranger.session })
      expect(other.body.ok).toBe(true)
    })
    expect(await verify()).toEqual(verdict)
  })
})
