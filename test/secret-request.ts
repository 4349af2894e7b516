/** Requests to every endpoint about secrets and their history. */
import type { historyEndpoints } from '@coffer/contract/history'
import type { secretEndpoints } from '@coffer/contract/secret'
import type { secretFileEndpoints } from '@coffer/contract/secret-file'
import type { secretReminderEndpoints } from '@coffer/contract/secret-reminder'
import type { secretSearchEndpoints } from '@coffer/contract/secret-search'
import { type Ask, absentId, one } from './ask.ts'
import { reminder, type World } from './world.ts'

type SecretAsks = Record<
  | keyof typeof secretEndpoints
  | keyof typeof secretFileEndpoints
  | keyof typeof secretReminderEndpoints
  | keyof typeof secretSearchEndpoints
  | keyof typeof historyEndpoints,
  readonly Ask[]
>

export function secretAsks(world: World): SecretAsks {
  const { projects, secrets, environments, environmentNames } = world
  const { right, sibling, wrong } = environments
  const { shared, referring, elsewhere } = secrets
  const list = `/v1/workspace/${world.slug}/project/${projects.right}/secret`
  const key = `${list}/SHARED`
  const environment = (id: string) => `/v1/workspace/${world.slug}/project/${projects.right}/environment/${id}`
  const all = [...environmentNames.keys()]
  const named = [shared, referring, elsewhere]
  const on = projects.right
  const value = 'fresh'
  const set = { op: 'set', key: 'FRESH', value }
  const inSibling = { ...set, environmentId: sibling }
  const remove = { op: 'delete', key: 'SHARED' }
  const personal = { op: 'set', key: 'SHARED', value, isPersonal: true }
  const write = (what: string, path: string, body: Ask['body'] = {}, more: Partial<Ask> = {}) =>
    one(what, path, { on, body, ...more })
  const row = (environmentId: string, isPersonal = false) => ({ environmentId, value, isPersonal })
  const created = (...ids: string[]) => ({ environments: ids, secrets: [{ key: 'FRESH', value }] })
  const changed = (...values: object[]) => ({ name: 'SHARED', values })
  const file = (environmentId: string) => ({ environmentId, format: 'dotenv', content: 'FRESH=fresh' })
  const needs = 'developer'
  return {
    listSecrets: [
      one('all in scope', list, { on, shows: [...all, ...named] }),
      one('of one', `${list}?environmentId=${right}`, { on, into: right, shows: [right, shared, referring] }),
      one('of a sibling by name', `${list}?environment_id=${environmentNames.get(sibling)}`, {
        on,
        into: sibling,
        shows: [sibling, shared, elsewhere],
      }),
      one('of one and a sibling', `${list}?environmentId=${right}&environmentId=${sibling}`, {
        on,
        into: [right, sibling],
        shows: [right, sibling, ...named],
      }),
      one('misplaced', `${list}?environmentId=${wrong}`, { on, into: absentId }),
      one('resolved', `${list}?environmentId=${right}&resolve=true`, {
        on,
        into: right,
        shows: [right, sibling, wrong, shared, referring],
      }),
      one('names only', `${list}?view=keys`, { on, shows: [...all, ...named] }),
      one('cells', `${list}?view=cells`, { on, shows: [...all, ...named] }),
      one('cells of one', `${list}?view=cells&environmentId=${right}`, {
        on,
        into: right,
        shows: [right, shared, referring],
      }),
      one('found by name', `${list}?q=else`, { on, shows: [sibling, elsewhere] }),
      one('of a neighbour', `/v1/workspace/${world.slug}/project/other/secret`, { on: projects.other, shows: [] }),
    ],
    readSecret: [
      one('by name', key, { on, shows: [...all, shared] }),
      one('by id', `${list}/${shared}?environmentId=${right}`, { on, into: right, shows: [right, shared] }),
      one('of a sibling', `${key}?environmentId=${sibling}`, { on, into: sibling, shows: [sibling, shared] }),
      one('cells', `${key}?view=cells`, { on, shows: [...all, shared] }),
      one('of a sibling only', `${list}/ELSEWHERE`, { on, into: sibling, shows: [sibling, elsewhere] }),
      one('of a sibling only, by id', `${list}/${elsewhere}`, { on, into: sibling, shows: [sibling, elsewhere] }),
      one('of another project', `${list}/${secrets.wrong}`, { on, into: absentId }),
      one('in the trash', `${list}/${secrets.trashed}`, { on, into: absentId }),
      one('resolved', `${list}/REFERRING?resolve=true`, { on, into: right, shows: [right, sibling, wrong, referring] }),
    ],
    listScopedSecrets: [one('scoped', '/v1/secrets', { shows: [right, shared, referring, wrong, secrets.wrong] })],
    createSecrets: [
      write('in one', list, created(right), { into: right }),
      write('in one and a sibling', list, created(right, sibling), { into: [right, sibling] }),
      write('misplaced', list, created(right, wrong), { into: absentId }),
      write('dry run', list, { ...created(right), dryRun: true }, { into: right, status: 200 }),
    ],
    updateSecret: [
      write('shared', key, changed(row(right)), { needs, into: right }),
      write('shared by id', `${list}/${shared}`, changed(row(right)), { needs, into: right }),
      write('of a sibling', key, changed(row(right), row(sibling)), { needs, into: [right, sibling] }),
      write('misplaced', key, changed(row(right), row(wrong)), { needs, into: absentId }),
      write('personal', key, changed(row(right, true)), { isPersonal: true, into: right }),
      write('shared and personal', key, changed(row(right), row(right, true)), {
        needs,
        isPersonal: true,
        into: right,
      }),
      write('personal where overrides are off', key, changed(row(sibling, true)), {
        isPersonal: true,
        into: sibling,
        status: 400,
      }),
      write(
        'personal with a note',
        key,
        { ...changed(row(right, true)), note: 'changed' },
        { needs, isPersonal: true, from: right },
      ),
      write('note', key, { ...changed(), note: 'changed' }, { needs }),
      write(
        'note of one in a sibling only',
        `${list}/ELSEWHERE`,
        { name: 'ELSEWHERE', note: 'changed', values: [] },
        {
          needs,
          from: sibling,
        },
      ),
      write('only a rename', key, { name: 'RENAMED', values: [] }, { needs, whole: on }),
      write('absent', `${list}/NOWHERE`, { name: 'NOWHERE', values: [] }, { needs, into: absentId }),
    ],
    writeSecretValue: [
      write('shared', `${key}/value`, row(right), { needs, into: right }),
      write('of a sibling', `${key}/value`, row(sibling), { needs, into: sibling }),
      write('misplaced', `${key}/value`, row(wrong), { needs, into: absentId }),
      write('personal', `${key}/value`, row(right, true), { isPersonal: true, into: right }),
      write('personal where overrides are off', `${key}/value`, row(sibling, true), {
        isPersonal: true,
        into: sibling,
        status: 400,
      }),
      write('of another project', `${list}/${secrets.wrong}/value`, row(right), { needs, into: right, status: 404 }),
    ],
    deleteSecret: [
      one('shared', `${key}?environmentId=${right}`, { on, needs, into: right }),
      one('of a sibling', `${key}?environmentId=${sibling}`, { on, needs, into: sibling }),
      one('misplaced', `${key}?environmentId=${wrong}`, { on, needs, into: absentId }),
      one('personal', `${key}?environmentId=${right}&personal=true`, { on, isPersonal: true, into: right }),
      one('everywhere', key, { on, needs, whole: on }),
      one('purge', `${list}/${shared}?purge=true`, { on, needs: 'admin', whole: on }),
      one('purge from the trash', `${list}/TRASHED?purge=true`, { on, needs: 'admin', whole: on }),
      one('of another project', `${list}/${secrets.wrong}`, { on, needs, whole: on, into: absentId }),
    ],
    listTrash: [
      one('list', `${list}/trash`, { on, shows: [secrets.trashed] }),
      one('of a neighbour', `/v1/workspace/${world.slug}/project/other/secret/trash`, {
        on: projects.other,
        shows: [],
      }),
    ],
    restoreSecret: [
      one('by name', `${list}/TRASHED/restore`, { on, whole: on }),
      one('by id', `${list}/${secrets.trashed}/restore`, { on, whole: on }),
      one('not in the trash', `${list}/${shared}/restore`, { on, whole: on, into: absentId }),
    ],
    writeBatch: [
      write('set', `${list}/batch`, { environmentId: right, operations: [set] }, { needs, into: right }),
      write('delete', `${list}/batch`, { environmentId: right, operations: [remove] }, { needs, into: right }),
      write('of a sibling', `${list}/batch`, { environmentId: sibling, operations: [set] }, { needs, into: sibling }),
      write('misplaced', `${list}/batch`, { environmentId: wrong, operations: [set] }, { needs, into: absentId }),
      write(
        'in one and a sibling',
        `${list}/batch`,
        { environmentId: right, operations: [set, inSibling] },
        {
          needs,
          into: [right, sibling],
        },
      ),
      write('in a sibling alone', `${list}/batch`, { operations: [inSibling] }, { needs, into: sibling }),
      write(
        'one of them misplaced',
        `${list}/batch`,
        {
          environmentId: right,
          operations: [set, { ...set, environmentId: wrong }],
        },
        { needs, into: absentId },
      ),
      write(
        'personal',
        `${list}/batch`,
        { environmentId: right, operations: [personal] },
        {
          isPersonal: true,
          into: right,
        },
      ),
      write(
        'personal where overrides are off',
        `${list}/batch`,
        {
          environmentId: right,
          operations: [{ ...personal, environmentId: sibling }],
        },
        { isPersonal: true, into: sibling, status: 400 },
      ),
      write(
        'shared and personal',
        `${list}/batch`,
        { environmentId: right, operations: [set, personal] },
        {
          needs,
          isPersonal: true,
          into: right,
        },
      ),
      write(
        'rename',
        `${list}/batch`,
        { environmentId: right, operations: [set, { op: 'rename', key: 'SHARED', to: 'RENAMED' }] },
        { needs, whole: on },
      ),
      write(
        'dry run',
        `${list}/batch`,
        { environmentId: right, operations: [set], dryRun: true },
        { needs, into: right },
      ),
    ],
    importSecrets: [
      write('of one', `${list}/import`, file(right), { into: right }),
      write('of a sibling', `${list}/import`, file(sibling), { into: sibling }),
      write('misplaced', `${list}/import`, file(wrong), { into: absentId }),
      write('dry run', `${list}/import`, { ...file(right), dryRun: true }, { into: right }),
    ],
    exportSecrets: [
      one('of one', `${list}/export?environmentId=${right}`, { on, into: right, shows: [right] }),
      one('of a sibling', `${list}/export?environment_id=${sibling}&format=csv`, {
        on,
        into: sibling,
        shows: [sibling],
      }),
      one('misplaced', `${list}/export?environmentId=${wrong}`, { on, into: absentId }),
      one('resolved', `${list}/export?environmentId=${right}&resolve=true&format=yaml`, {
        on,
        into: right,
        shows: [right, sibling, wrong],
      }),
    ],
    searchSecrets: [
      one('all', `/v1/workspace/${world.slug}/secret`, { shows: [...all, wrong, ...named, secrets.wrong] }),
      one('by a part of the name', `/v1/workspace/${world.slug}/secret?q=elseW`, { shows: [sibling, elsewhere] }),
      one('nothing', `/v1/workspace/${world.slug}/secret?q=nowhere`, { shows: [] }),
    ],
    putReminder: [
      write('of one', `${key}/reminder`, { ...reminder(right), type: 'recurring', everyDays: 7 }, { into: right }),
      write('of a sibling', `${key}/reminder`, reminder(sibling), { into: sibling }),
      write('misplaced', `${key}/reminder`, reminder(wrong), { into: absentId }),
    ],
    deleteReminder: [
      one('of one', `${key}/reminder?environmentId=${right}`, { on, into: right }),
      // The sibling has no reminder.
      one('of a sibling', `${key}/reminder?environmentId=${sibling}`, { on, into: sibling, status: 404 }),
    ],
    listVersions: [
      one('of one', `${key}/version?environmentId=${right}`, { on, into: right, shows: [] }),
      one('of a sibling', `${list}/${shared}/version?environmentId=${sibling}`, { on, into: sibling, shows: [] }),
      one('misplaced', `${key}/version?environmentId=${wrong}`, { on, into: absentId }),
      one('of a sibling only', `${list}/ELSEWHERE/version?environmentId=${right}`, { on, into: absentId }),
    ],
    readVersion: [
      one('of one', `${key}/version/1?environmentId=${right}`, { on, into: right, shows: [right] }),
      one('of a sibling', `${list}/${shared}/version/2?environmentId=${sibling}`, {
        on,
        into: sibling,
        shows: [sibling],
      }),
      one('misplaced', `${key}/version/1?environmentId=${wrong}`, { on, into: absentId }),
    ],
    restoreVersion: [
      write('of one', `${key}/version/1/restore`, { environmentId: right }, { into: right }),
      write('of a sibling', `${list}/${shared}/version/1/restore`, { environmentId: sibling }, { into: sibling }),
      write('misplaced', `${key}/version/1/restore`, { environmentId: wrong }, { into: absentId }),
    ],
    listRevisions: [
      one('of one', `${environment(right)}/revision`, { on: right, shows: [] }),
      one('of a sibling', `${environment(sibling)}/revision`, { on: sibling, shows: [] }),
      one('misplaced', `${environment(wrong)}/revision`, { on: absentId }),
    ],
    restoreRevision: [
      write('of one', `${environment(right)}/revision/1/restore`, {}, { on: right }),
      write('of a sibling', `${environment(sibling)}/revision/1/restore`, {}, { on: sibling }),
      write('misplaced', `${environment(wrong)}/revision/1/restore`, {}, { on: absentId }),
      write('dry run', `${environment(right)}/revision/1/restore`, { dryRun: true }, { on: right }),
    ],
    diffSecrets: [
      one('of one', `${list}/diff?from=${right}@1&to=${right}`, { on, into: right, shows: [] }),
      one('with a sibling', `${list}/diff?from=${right}&to=${sibling}&values=true`, {
        on,
        into: [right, sibling],
        shows: [right, sibling],
      }),
      one('from a sibling', `${list}/diff?from=${environmentNames.get(sibling)}@1&to=${right}`, {
        on,
        into: [right, sibling],
        shows: [],
      }),
      one('misplaced', `${list}/diff?from=${right}&to=${wrong}&values=true`, { on, into: absentId }),
    ],
    promoteSecrets: [
      write('from a sibling', `${environment(right)}/promote`, { from: sibling }, { on: right, from: sibling }),
      write('to a sibling', `${environment(sibling)}/promote`, { from: right }, { on: sibling, from: right }),
      write('misplaced', `${environment(right)}/promote`, { from: wrong }, { on: right, from: absentId }),
      write('dry run', `${environment(right)}/promote`, { from: sibling, dryRun: true }, { on: right, from: sibling }),
    ],
  }
}
