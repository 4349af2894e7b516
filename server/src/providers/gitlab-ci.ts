/** CI/CD variables of a GitLab project or group, in one environment scope. */
import { apiOf, gitlabCom, headersOf, isMaskable, listItems, openVariables } from './gitlab-variables.ts'
import { offering } from './offered-options.ts'
import type { Connection, Option, Provider } from './provider.ts'
import { baseUrlField, baseUrlOf } from './self-hosted.ts'
import { textAt } from './vendor-json.ts'

async function* listProjects(connection: Connection): AsyncIterable<Option> {
  const url = `${apiOf(connection)}/projects?membership=true&min_access_level=40&simple=true&per_page=100`
  for await (const item of listItems(connection, url)) {
    yield { label: textAt(item, 'path_with_namespace'), value: textAt(item, 'id') }
  }
}

async function* listGroups(connection: Connection): AsyncIterable<Option> {
  for await (const item of listItems(connection, `${apiOf(connection)}/groups?min_access_level=50&per_page=100`)) {
    yield { label: textAt(item, 'full_path'), value: textAt(item, 'id') }
  }
}

const checkPath = (value: string) =>
  /^(\d{1,20}|(?!\.)[\w.-]{1,255}(\/(?!\.)[\w.-]{1,255})*)$/.test(value) ? undefined : 'is neither a number nor a path.'

export const gitlabCi: Provider = {
  slug: 'gitlab-ci',
  name: 'GitLab CI/CD',
  website: 'https://about.gitlab.com',
  docs: 'https://docs.gitlab.com/api/project_level_variables/',
  glyph: { text: 'GL', colour: '#e24329' },
  notes: [
    'Only variables of the chosen environment scope are read and changed. Variables of other scopes stay untouched.',
    'Values are stored raw: $ is not expanded.',
    'GitLab can mask only single-line values of at least 8 characters without spaces in job logs.',
    'Environment scopes of groups need a paid plan, and GitLab 16.9 or newer.',
    'A project has at most 8,000 variables, a group 30,000.',
    'GitLab documents no size limit for values. Coffer refuses values over 1 MiB.',
  ],
  capabilities: {
    read: 'value',
    bulk: 1,
    mixes: false,
    ownerMark: 'description',
    guard: 'mark',
    defaultMode: 'per-key',
  },
  limits: {
    name: /^[A-Za-z0-9_]+$/,
    nameHint: 'letters, digits and underscores',
    nameMax: 255,
    valueMaxBytes: 1024 * 1024,
    allowsEmpty: true,
    refuseValue: (value, { masked }) =>
      masked === 'require' && !isMaskable(value)
        ? 'cannot be masked: it has fewer than 8 characters, spaces or line breaks.'
        : undefined,
    rate: { perSecond: 10, concurrency: 2 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'permissions',
      label: 'Create an access token',
      description: 'A token of the project or group reaches nothing else.',
      language: 'text',
      text: () =>
        ['Settings, Access tokens, Add new token', 'Role: Maintainer (project) or Owner (group)', 'Scope: api'].join(
          '\n',
        ),
    },
    { kind: 'password', id: 'token', label: 'Access token', placeholder: 'glpat-…' },
    baseUrlField({ label: 'Address of GitLab', defaultValue: gitlabCom, placeholder: 'https://gitlab.example.com' }),
  ],
  async verify(connection) {
    const headers = headersOf(connection)
    const { json } = await connection.http.send({ method: 'GET', url: `${apiOf(connection)}/user`, headers })
    return textAt(json, 'username')
  },
  target: [
    {
      kind: 'select',
      id: 'kind',
      label: 'Variables belong to',
      defaultValue: 'project',
      options: [
        { label: 'A project', value: 'project' },
        { label: 'A group', value: 'group' },
      ],
    },
    {
      kind: 'select',
      id: 'project',
      label: 'Project',
      placeholder: 'group/project, or its number',
      after: ['kind'],
      when: ({ kind }) => kind !== 'group',
      check: checkPath,
      options: offering(listProjects),
    },
    {
      kind: 'select',
      id: 'group',
      label: 'Group',
      placeholder: 'group, or its number',
      after: ['kind'],
      when: ({ kind }) => kind === 'group',
      check: checkPath,
      options: offering(listGroups),
    },
    {
      kind: 'text',
      id: 'environmentScope',
      label: 'Environment scope',
      isFree: true,
      description: 'The name of an environment; * matches any text, and * alone matches all environments.',
      defaultValue: '*',
      check: (value) => (/^[\w/\\${}. *-]{1,255}$/.test(value) ? undefined : 'is not an environment scope.'),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'masked',
      label: 'Mask values in job logs',
      isStored: true,
      defaultValue: 'try',
      options: [
        { label: 'If GitLab can', value: 'try' },
        { label: 'Always: refuse values that cannot be masked', value: 'require' },
        { label: 'Never', value: 'off' },
      ],
    },
    {
      kind: 'select',
      id: 'protected',
      label: 'Only on protected branches and tags',
      isStored: true,
      defaultValue: 'no',
      options: [
        { label: 'No', value: 'no' },
        { label: 'Yes', value: 'yes' },
      ],
    },
    {
      kind: 'select',
      id: 'type',
      label: 'Jobs get',
      isStored: true,
      defaultValue: 'env_var',
      options: [
        { label: 'Environment variables', value: 'env_var' },
        { label: 'Files, with their paths in environment variables', value: 'file' },
      ],
    },
  ],
  describeTarget({ kind, project = '', group = '', environmentScope = '*' }, credential) {
    const owner = kind === 'group' ? `group ${group}` : `project ${project}`
    const fingerprint = JSON.stringify([
      baseUrlOf(credential.baseUrl, gitlabCom),
      owner.toLowerCase(),
      environmentScope,
    ])
    return { label: `${owner} (${environmentScope})`, fingerprint }
  },
  normaliseName: (name) => name,
  connect: openVariables,
}
