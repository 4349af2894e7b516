/**
 * Stored keys: root keys under the master key, workspace and signing keys under a root, environment keys under their
 * workspace. Keys leave this file only wrapped or as key objects.
 */
import type { KeyObject } from 'node:crypto'
import { setBounded } from '../../bounded-map.ts'
import { asKey, associatedData, newKey, open, seal } from '../../crypto/envelope.ts'
import { jwtLifetimeSeconds } from '../../crypto/jwt.ts'
import { requireRegistered } from '../../crypto/key-register.ts'
import { createKeyring, type Keyring, openRootKey, type RootKey, type WrappedRootKey } from '../../crypto/keyring.ts'
import { isRowGenuine, type MacField, type RowMac } from '../../crypto/row-mac.ts'
import { openSigningKey, type Signer, type SigningPurpose } from '../../crypto/signing.ts'
import { Failure } from '../../failure.ts'
import { type Db, type Engine, fragment, type Question, type Reader, sql } from '../engine/sql.ts'
import { isOnAt, type UpgradeSwitch } from '../upgrade-switch.ts'
import { followHandover, handOver, type NewMaster } from './custody.ts'
import { changeKeys, createKeys } from './register.ts'
import { readKeyRows } from './rows.ts'

type Loaded = {
  /** The key that wraps the roots. */
  readonly master: KeyObject
  readonly keyring: Keyring
  readonly active: Record<SigningPurpose, Signer>
  readonly signers: ReadonlyMap<string, KnownSigner>
  readonly level: number
}
type KnownSigner = { readonly signer: Signer; readonly purpose: SigningPurpose; readonly retiredAt: number | null }

export type Keys = {
  readonly keyring: Keyring
  signer(purpose: SigningPurpose): Signer
  /**
   * A key that signs JWTs, or a retired one until its last JWT has expired. After that, a stolen old key is useless.
   */
  findJwtSigner(id: string): Signer | undefined
  /** A current or retired key for audit heads; reloads if this node does not know it yet. */
  findAuditSigner(id: string): Promise<Signer | undefined>
  /** Reads the keyring again, because another process may have rotated it. */
  reload(): Promise<void>
  /**
   * Looks again after reloading the keyring: another node may have issued the credential under keys rotated a moment
   * ago. Reloads are limited per `name` (a key's id or a credential's hash), so that made-up credentials do not exhaust
   * them.
   */
  lookTwice<Found>(name: string, look: () => Promise<Found | undefined>): Promise<Found | undefined>
  /** True if the row's MAC is valid. Reloads if this node does not know the row's root yet. */
  isGenuine(table: string, fields: readonly MacField[], row: RowMac): Promise<boolean>
  /** Creates a new root and new signing keys inside a transaction. Call `reload` after the commit to use them here. */
  turn(db: Db, nowMs: number): Promise<string>
  /** Changes rows of root or signing keys inside a transaction and seals a new register. */
  change<Result>(db: Db, work: () => Promise<Result>): Promise<Result>
  /** How many upgrade switches are on. */
  readonly level: number
  isFinished(name: UpgradeSwitch): boolean
  /** Switches on everything up to the level, inside a transaction. Call `reload` after the commit. */
  raiseLevel(db: Db, level: number): Promise<void>
  /** Finds a root by id; reloads if this node does not know it yet. */
  requireRoot(id: string): Promise<RootKey>
  /** Opens the keys of backups of this store. */
  readonly master: MasterAccess
  /** Puts the store under another master key, inside a transaction. */
  handOver(db: Db, next: NewMaster, nowMs: number): Promise<void>
  /** True if this process began with a former master key, and follows a handover. */
  readonly isHandedOver: boolean
  /** True if the key is the master key in use. */
  isMaster(key: KeyObject): boolean
}

/** What the master key opens, for code that must not hold the key itself. */
export type MasterAccess = {
  /** Throws `integrity` if another master key wrapped the root. */
  openRoot(row: WrappedRootKey): RootKey
  openKeys(engine: Engine): Promise<Keys>
}

export function masterAccess(master: KeyObject, now: () => number): MasterAccess {
  return { openRoot: (row) => openRootKey(row, master), openKeys: (engine) => openKeys(engine, master, now) }
}

const minReloadGapMs = 1_000
/** Maximum number of reloads per gap, for all names together. */
const maxReloads = 10
const maxAbsent = 1_000
/** Lifetime of a JWT, plus a minute for clock differences and for nodes that learn of the rotation late. */
const retiredJwtMs = (jwtLifetimeSeconds + 60) * 1_000

export async function openKeys(engine: Engine, master: KeyObject, now: () => number): Promise<Keys> {
  let loaded = await readKeys(engine, master)
  let last: Promise<void> = Promise.resolve()
  let reading: Promise<void> | undefined
  let probedSince = Number.NEGATIVE_INFINITY
  /** Names that caused a reload since `probedSince`. */
  const probed = new Set<string>()
  /** Unknown root ids named by rows, with the time of the last failed search. */
  const absent = new Map<string, number>()

  /** One at a time: a slow read must not replace a newer one, whose master key may be the only one that opens the store. */
  function reload(): Promise<void> {
    last = last
      .catch(() => undefined)
      .then(async () => {
        loaded = await readKeys(engine, loaded.master)
      })
    return last
  }

  function reloadTogether(): Promise<void> {
    reading ??= reload().finally(() => {
      reading = undefined
    })
    return reading
  }

  /** True if the keyring is no longer `seen`; reloads it first if the limit for `name` allows. */
  async function isTurned(seen: Keyring, name: string): Promise<boolean> {
    // A read in progress may have started before the rotation. If its result does not help, read again.
    await reading
    if (loaded.keyring === seen && mayProbe(name)) await reloadTogether()
    return loaded.keyring !== seen
  }

  /** Made-up credentials must not cause a query for every request. */
  function mayProbe(name: string): boolean {
    if (now() - probedSince >= minReloadGapMs) {
      probed.clear()
      probedSince = now()
    }
    if (probed.has(name) || probed.size >= maxReloads) return false
    probed.add(name)
    return true
  }

  async function knows(rootId: string): Promise<boolean> {
    const isKnown = () => loaded.keyring.find(rootId) !== undefined
    if (isKnown()) return true
    // A read in progress may have started before the root was created. If its result does not help, read again.
    await reading
    if (isKnown()) return true
    // A made-up root id in a row must not cause a query for every request.
    if (now() - (absent.get(rootId) ?? Number.NEGATIVE_INFINITY) < minReloadGapMs) return false
    await reloadTogether()
    if (isKnown()) return true
    setBounded(absent, maxAbsent, rootId, now())
    return false
  }

  return {
    get keyring() {
      return loaded.keyring
    },
    signer: (purpose) => loaded.active[purpose],
    findJwtSigner: (id) => {
      const known = loaded.signers.get(id)
      if (known?.purpose !== 'jwt') return undefined
      return known.retiredAt === null || now() < known.retiredAt + retiredJwtMs ? known.signer : undefined
    },
    findAuditSigner: async (id) => {
      if (!loaded.signers.has(id)) await reload()
      const known = loaded.signers.get(id)
      return known?.purpose === 'audit' ? known.signer : undefined
    },
    reload,
    lookTwice: async (name, look) => {
      const seen = loaded.keyring
      return (await look()) ?? ((await isTurned(seen, name)) ? look() : undefined)
    },
    turn: (db, nowMs) => changeKeys(db, loaded.master, (current) => createKeys(db, current, nowMs)),
    change: (db, work) => changeKeys(db, loaded.master, work),
    get level() {
      return loaded.level
    },
    isFinished: (name) => isOnAt(loaded.level, name),
    raiseLevel: (db, level) => changeKeys(db, loaded.master, async () => undefined, level),
    handOver: (db, next, nowMs) => handOver(db, loaded.master, next, nowMs),
    get isHandedOver() {
      return !loaded.master.equals(master)
    },
    isMaster: (key) => loaded.master.equals(key),
    isGenuine: async (table, fields, row) =>
      (await knows(row.macRootId)) && isRowGenuine(loaded.keyring, table, fields, row),
    requireRoot: async (id) => {
      await knows(id)
      const root = loaded.keyring.find(id)
      if (!root) throw new Failure('integrity')
      return root
    },
    get master() {
      return masterAccess(loaded.master, now)
    },
  }
}

async function readKeys(db: Reader, given: KeyObject): Promise<Loaded> {
  const rows = await readKeyRows(db)
  const master = await followHandover(db, given, rows.roots)
  const roots = rows.roots.map((row) => ({ row, root: openRootKey(row, master) }))
  const level = requireRegistered(master, rows, rows.register)
  const active = roots.find(({ row }) => row.isActive === 1)
  if (!active) throw new Failure('keysChanged')
  const keyring = createKeyring(
    active.root,
    roots.filter((entry) => entry !== active).map(({ root }) => root),
  )
  const signers = new Map<string, KnownSigner>()
  const current: Partial<Record<SigningPurpose, Signer>> = {}
  for (const row of rows.signers) {
    const root = keyring.find(row.rootId)
    if (!root) throw new Failure('integrity')
    const signer = openSigningKey(row, root)
    signers.set(row.id, { signer, purpose: row.purpose, retiredAt: row.retiredAt })
    if (row.retiredAt === null) current[row.purpose] = signer
  }
  if (!current.jwt || !current.audit) throw new Failure('keysChanged')
  return { master, keyring, signers, level, active: { jwt: current.jwt, audit: current.audit } }
}

export type WorkspaceKeyRow = { workspaceId: string; version: number; rootId: string; wrapped: Uint8Array }
const selectKey = fragment(
  `select workspace_id as "workspaceId", version, root_id as "rootId", wrapped from workspace_key`,
)

/** The workspace's newest key, for sealing; pass `version` to get an older one, for opening. */
export async function requireWorkspaceKey(
  db: Reader,
  keys: Keys,
  workspaceId: string,
  version?: number,
): Promise<{ version: number; key: KeyObject }> {
  const wrapped = await requireWrappedKey(db, keys, workspaceId, version)
  return { version: wrapped.row.version, key: unwrapWorkspaceKey(workspaceId, wrapped) }
}

/** A workspace key with the root that opens it. */
export type WrappedWorkspaceKey = { readonly row: WorkspaceKeyRow; readonly root: RootKey }

export const unwrapWorkspaceKey = (workspaceId: string, { row, root }: WrappedWorkspaceKey): KeyObject =>
  asKey(open(root.wrap, workspaceKeyPlace(workspaceId, row, root), row.wrapped))

export async function requireWrappedKey(
  db: Reader,
  keys: Keys,
  workspaceId: string,
  version?: number,
): Promise<WrappedWorkspaceKey> {
  const row = await db.one<WorkspaceKeyRow>(
    version === undefined
      ? newestWorkspaceKey.query(workspaceId, [])
      : sql`${selectKey} where workspace_id = ${workspaceId} and version = ${version}`,
  )
  if (!row) throw await missingKey(db.one(sql`select id from workspace where id = ${workspaceId}`))
  return { row, root: await keys.requireRoot(row.rootId) }
}

/** The newest key of a workspace. Asked within the workspace. */
export const newestWorkspaceKey: Question<WorkspaceKeyRow> = {
  query: (workspaceId) => sql`${selectKey} where workspace_id = ${workspaceId} order by version desc limit 1`,
  keyOf: ({ workspaceId }) => workspaceId,
}

export function insertWorkspaceKey(db: Db, keys: Keys, workspaceId: string, version: number, nowMs: number): void {
  const root = keys.keyring.active
  const wrapped = seal(root.wrap, version, workspaceKeyPlace(workspaceId, { version }, root), newKey())
  db.write(sql`
    insert into workspace_key (workspace_id, version, root_id, wrapped, created_at)
    values (${workspaceId}, ${version}, ${root.id}, ${wrapped}, ${nowMs})`)
}

export function workspaceKeyPlace(workspaceId: string, row: { version: number }, root: RootKey): Buffer {
  return associatedData('workspace-key', workspaceId, row.version, root.id)
}

export async function insertEnvironmentKey(
  db: Db,
  keys: Keys,
  owner: { workspaceId: string; environmentId: string },
  version: number,
  nowMs: number,
): Promise<void> {
  const workspaceKey = await requireWorkspaceKey(db, keys, owner.workspaceId)
  const wrapped = seal(workspaceKey.key, workspaceKey.version, environmentKeyPlace(owner, version), newKey())
  db.write(sql`
    insert into environment_key (environment_id, version, workspace_id, workspace_key_version, wrapped, created_at)
    values (${owner.environmentId}, ${version}, ${owner.workspaceId}, ${workspaceKey.version}, ${wrapped}, ${nowMs})`)
}

type EnvironmentOwner = { readonly workspaceId: string; readonly environmentId: string }
type EnvironmentKeyRow = { version: number; workspaceKeyVersion: number; wrapped: Uint8Array }

export async function findEnvironmentKey(
  db: Reader,
  keys: Keys,
  owner: EnvironmentOwner,
  version: number,
): Promise<KeyObject> {
  const row = await db.one<EnvironmentKeyRow>(sql`
    select version, workspace_key_version as "workspaceKeyVersion", wrapped from environment_key
    where environment_id = ${owner.environmentId} and version = ${version} and workspace_id = ${owner.workspaceId}`)
  if (!row) throw await missingKey(findEnvironment(db, owner))
  return openEnvironmentKey(db, keys, owner, row)
}

/** The key that new values are sealed with. */
export async function newestEnvironmentKey(
  db: Reader,
  keys: Keys,
  owner: EnvironmentOwner,
): Promise<{ version: number; key: KeyObject }> {
  const row = await db.one<EnvironmentKeyRow>(sql`
    select version, workspace_key_version as "workspaceKeyVersion", wrapped from environment_key
    where environment_id = ${owner.environmentId} and workspace_id = ${owner.workspaceId}
    order by version desc limit 1`)
  if (!row) throw await missingKey(findEnvironment(db, owner))
  return { version: row.version, key: await openEnvironmentKey(db, keys, owner, row) }
}

/** Not found if the owner was deleted during the request; an integrity failure if the owner still exists. */
async function missingKey(owner: Promise<object | undefined>): Promise<Failure> {
  return new Failure((await owner) ? 'integrity' : 'notFound')
}

const findEnvironment = (db: Reader, { environmentId, workspaceId }: EnvironmentOwner) =>
  db.one<object>(sql`select id from environment where id = ${environmentId} and workspace_id = ${workspaceId}`)

async function openEnvironmentKey(
  db: Reader,
  keys: Keys,
  owner: EnvironmentOwner,
  row: EnvironmentKeyRow,
): Promise<KeyObject> {
  const workspaceKey = await requireWorkspaceKey(db, keys, owner.workspaceId, row.workspaceKeyVersion)
  return asKey(open(workspaceKey.key, environmentKeyPlace(owner, row.version), row.wrapped))
}

export function environmentKeyPlace(owner: { workspaceId: string; environmentId: string }, version: number): Buffer {
  return associatedData('environment-key', owner.workspaceId, owner.environmentId, version)
}
