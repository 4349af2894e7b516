/** Migrations leave nodes of the version before working, and released ones are never changed. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { steps } from '../server/src/store/migrate.ts'
import { nextSteps } from '../torture/process/next-migration.ts'
import { findBrokenRules, type Step } from './migration-rule.ts'

/** Migrations from before the rules. */
const history = [
  ...['foundation', 'secret', 'leftover', 'invite', 'person', 'identity', 'share', 'sync', 'batch', 'author'],
  ...['cli-token', 'key-register', 'device-session', 'audit-list', 'audit-mark', 'secret-past', 'email'],
  ...['secret-search', 'access'],
]
const isHistory = ({ name }: Step) => history.includes(name.replace(/-\d+$/, ''))
const first = steps.findLastIndex(isHistory) + 1

test('migrations from before the rules are as they were', () => {
  const past = steps.slice(0, first)
  expect(past.every(isHistory)).toBe(true)
  const digest = createHash('sha256').update(JSON.stringify(past)).digest('hex')
  expect(digest).toBe('813cdfce95b0c11d41f82db19d6c1fbac0c69f9a704f69e781bfeb7e89ccc162')
})

test('every later migration keeps the rules', () => {
  expect(findBrokenRules(steps, first)).toEqual([])
})

test('the made-up migration of the torture keeps the rules', () => {
  expect(findBrokenRules([...steps, ...nextSteps(1), ...nextSteps(2)], steps.length)).toEqual([])
})

test('of the migrations before the rules, those that replaced or renamed a table break them', () => {
  const broken = findBrokenRules(steps.slice(0, first)).map((text) => text.split(':')[0])
  expect([...new Set(broken)]).toEqual(['leftover-2', 'leftover-3', 'leftover-4', 'batch-1'])
})

test.each([
  ['drop table member', '"drop table member" is no allowed statement'],
  ['alter table member drop column scope', '"alter table member drop column scope" is no allowed statement'],
  ['alter table member rename to person', '"alter table member rename to person" is no allowed statement'],
  [
    'alter table member rename column role to rank',
    '"alter table member rename column role to rank" is no allowed statement',
  ],
  [
    'alter table member alter column role set not null',
    '"alter table member alter column role set not null" is no allowed statement',
  ],
  [
    'alter table member add constraint one unique (role)',
    '"alter table member add constraint one unique (role)" is no allowed statement',
  ],
  ['delete from member', '"delete from member" is no allowed statement'],
  [
    'create trigger late after insert on member begin end',
    '"create trigger late after insert on member begin end" is no allowed statement',
  ],
  ['create table member (id text)', 'the table member exists'],
  ['alter table member add column rank text not null', 'an old node cannot insert into member: rank needs a default'],
  ['alter table member add column rank text unique', 'an old node may break "unique" of member.rank'],
  [
    'alter table member add column rank integer default 1 check (rank > 0)',
    'an old node may break "check" of member.rank',
  ],
  [
    'alter table member add column team_id text references team (id)',
    'an old node cannot delete from team: say "on delete cascade" or "on delete set null"',
  ],
  [
    'create table badge (id text, member_id text references member (id))',
    'an old node cannot delete from member: say "on delete cascade" or "on delete set null"',
  ],
  [
    'create unique index member_role on member (workspace_id, role)',
    'an old node may write rows that member_role forbids',
  ],
  ['drop index member_owner', 'an old node may rely on member_owner in "on conflict"'],
  ["insert into member (id) values ('x')", 'an old node does not expect new rows in member'],
  ["update member set scope = ''", 'an old node does not expect that member.scope changes'],
  [
    "alter table member add column rank text; update member set rank = '', scope = ''",
    "\"update member set rank = '', scope = ''\" is no allowed statement",
  ],
])('%s is refused', (statement, problem) => {
  expect(findBrokenRules([...steps, { name: 'later-1', statement }], steps.length)).toEqual([`later-1: ${problem}`])
})

test.each([
  'create table badge (id text primary key, mac_root_id text not null references root_key (id))',
  'create table badge (id text primary key); alter table badge add column name text not null; drop index member_user',
  'create table badge (id text primary key); create unique index badge_id on badge (id); insert into badge (id) select id from member',
  "alter table member add column rank text; update member set rank = 'x'; create unique index member_rank on member (workspace_id, rank)",
  'alter table member add column rank integer not null default 0; create index member_rank on member (rank) where rank > 0',
])('%s is allowed', (statement) => {
  expect(findBrokenRules([...steps, { name: 'later-1', statement }], steps.length)).toEqual([])
})
