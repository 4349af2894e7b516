/** The files in deploy/ name what exists, ask for no right that the service does not need, and hold no secret. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { readConfig } from '../server/src/config.ts'
import { plainHttpProblem } from '../server/src/tls/plain-http.ts'
import { makeCertificate } from './certificate.ts'

const root = join(import.meta.dirname, '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')
const { version } = JSON.parse(read('server/package.json'))
const dockerfile = read('deploy/Dockerfile')

/** Settings that the image has, unless the container overrides them. */
const imageSettings = Object.fromEntries(
  [...dockerfile.matchAll(/\b(COFFER_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
)

/** The start would not be refused because of these settings. */
function expectToStart(settings: Readonly<Record<string, string>>): void {
  // A file of settings that exists only on the machine of the operator.
  const { COFFER_CONFIG: _, ...given } = { ...imageSettings, ...settings }
  expect(plainHttpProblem(readConfig(given))).toBeUndefined()
}

test('the image runs as a user without a name or rights, and alone its settings do not start plain http', () => {
  const [, last = ''] = dockerfile.split(/^FROM \$\{BASE\}$/m)
  expect(last).toMatch(/^USER 10001:10001$/m)
  // Nothing runs in the base, so the image holds the base and our files only.
  expect(last).not.toMatch(/^RUN /m)
  expect(last).toMatch(/^HEALTHCHECK .* CMD \["coffer-server", "health"\]$/m)
  expect(imageSettings).toEqual({ COFFER_HOST: '0.0.0.0', COFFER_DATA_DIR: '/data' })
  expect(plainHttpProblem(readConfig(imageSettings))).toContain('COFFER_TLS_CERT_FILE')
})

test('the build sees only the files that it needs', () => {
  const [first, ...lines] = read('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  expect(first).toBe('*')
  expect(lines).toEqual(expect.arrayContaining(['**/node_modules', '**/data', '**/*.key', '**/.env*']))
  const { workspaces } = JSON.parse(read('package.json'))
  for (const name of workspaces) {
    expect(lines).toContain(`!${name}`)
    expect(dockerfile).toContain(`COPY ${name}/package.json ${name}/\n`)
  }
})

type Service = {
  readonly image: string
  readonly environment: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
  readonly secrets?: readonly string[]
  readonly cap_drop?: readonly string[]
  readonly read_only?: boolean
  readonly healthcheck?: unknown
  readonly networks?: unknown
}
type Compose = {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets?: Readonly<Record<string, { readonly file: string }>>
}
const readCompose = (name: string): Compose => parse(read(`deploy/${name}`), { merge: true })

test('compose.yaml starts one node, on loopback alone', () => {
  const { services } = readCompose('compose.yaml')
  const { coffer } = services
  expect(Object.keys(services)).toEqual(['coffer'])
  expect(coffer?.image).toBe(`coffer:${version}`)
  expect(coffer?.ports).toEqual(['127.0.0.1:8080:8080'])
  expect(coffer).toMatchObject({ read_only: true, cap_drop: ['ALL'] })
  expectToStart(coffer?.environment ?? {})
})

test('compose.nodes.yaml starts three nodes, which only the proxy publishes, and reads every secret from a file', () => {
  const { services, secrets = {} } = readCompose('compose.nodes.yaml')
  const nodes = Object.keys(services).filter((name) => name.startsWith('coffer-'))
  expect(nodes).toHaveLength(3)
  for (const name of nodes) {
    expect(services[name]).toMatchObject({ image: `coffer:${version}`, read_only: true, cap_drop: ['ALL'] })
    expectToStart(services[name]?.environment ?? {})
    // Not in memory: a backup of PostgreSQL is made there, as large as the store.
    expect(services[name]?.environment.TMPDIR).toBe(imageSettings.COFFER_DATA_DIR)
  }
  const published = Object.entries(services).filter(([, { ports }]) => ports !== undefined)
  expect(published.map(([name]) => name)).toEqual(['proxy'])
  // The image of the service has a health check of its own.
  const unchecked = Object.entries(services).filter(([, { healthcheck }]) => healthcheck === undefined)
  expect(unchecked.map(([name]) => name)).toEqual(nodes)

  const used = Object.values(services).flatMap((service) => service.secrets ?? [])
  expect(Object.keys(secrets).toSorted()).toEqual([...new Set(used)].toSorted())
  for (const [name, { file }] of Object.entries(secrets)) expect(file).toBe(`./secrets/${name}`)
  expect(read('.gitignore')).toMatch(/^deploy\/secrets\/$/m)

  const proxy = read('deploy/proxy/nginx.conf')
  const upstream = [...proxy.matchAll(/^\s+server (coffer-\d):8080 /gm)].map(([, name]) => name)
  // All of them together, and each alone for writes without a body.
  expect(upstream).toEqual([...nodes, ...nodes])
  const others = [...read('deploy/proxy/haproxy.cfg').matchAll(/^\s+server (coffer-\d) \1:8080$/gm)].map(
    ([, name]) => name,
  )
  expect(others).toEqual([...nodes, ...nodes])
  expect(services.proxy?.networks).toEqual({ front: { ipv4_address: '172.30.10.2' } })
  expect(services['coffer-1']?.environment.COFFER_TRUSTED_PROXIES).toBe('172.30.10.2/32')
})

test('the commands of docs/deploy.md make every secret of compose.nodes.yaml, readable by nobody else', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-secrets-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [, commands = ''] = /```sh\ncd deploy\n([\s\S]*?)```/.exec(read('docs/deploy.md')) ?? []
  const { certificate, key } = makeCertificate()
  await writeFile(join(folder, 'fullchain.pem'), certificate)
  await writeFile(join(folder, 'privkey.pem'), key)
  execFileSync('sh', ['-euc', commands.replaceAll('/path/of/', `${folder}/`)], { cwd: folder })

  const secret = (name: string) => join(folder, 'secrets', name)
  const { secrets = {} } = readCompose('compose.nodes.yaml')
  expect(readdirSync(join(folder, 'secrets')).toSorted()).toEqual(Object.keys(secrets).toSorted())
  for (const name of Object.keys(secrets)) expect(statSync(secret(name)).mode & 0o077, name).toBe(0)
  const text = (name: string) => readFileSync(secret(name), 'utf8')
  expect(Buffer.from(text('master.key'), 'base64')).toHaveLength(32)
  const { databaseUrl = '', redisUrl = '', setupCode } = readConfig({ COFFER_CONFIG: secret('coffer.conf') })
  expect(new URL(databaseUrl).password).toBe(text('postgres-password'))
  expect(text('redis.conf')).toBe(`save ""\nrequirepass ${new URL(redisUrl).password}\n`)
  expect(setupCode).toHaveLength(20)
})

type Container = {
  readonly image: string
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly ports: readonly { readonly name: string }[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  readonly [probe: string]: unknown
}
type PodSpec = {
  readonly containers: readonly Container[]
  readonly securityContext: unknown
  readonly automountServiceAccountToken: boolean
  readonly terminationGracePeriodSeconds: number
  readonly volumes: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[]
}
type Manifest = {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly stringData?: Readonly<Record<string, string>>
  readonly spec: {
    readonly selector?: unknown
    readonly podSelector?: unknown
    readonly template?: { readonly metadata: { readonly labels: unknown }; readonly spec: PodSpec }
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[]
  }
}
const readManifests = (name: string): Manifest[] =>
  parseAllDocuments(read(`deploy/kubernetes/${name}`)).map((document) => document.toJS())

const exampleSecrets = readManifests('secret.example.yaml')

test('the example of the Secrets has no value', () => {
  const values = exampleSecrets.flatMap(({ stringData = {} }) => Object.values(stringData))
  expect(values.length).toBeGreaterThan(3)
  expect(new Set(values)).toEqual(new Set(['']))
})

test.each(['single.yaml', 'nodes.yaml'])('%s: one pod template, which every other object selects', (name) => {
  const manifests = readManifests(name)
  const labels = { 'app.kubernetes.io/name': 'coffer' }
  const find = (kind: string) => manifests.find((one) => one.kind === kind)
  expect(manifests.map(({ kind }) => kind)).toEqual([
    'ServiceAccount',
    'Service',
    'PodDisruptionBudget',
    'NetworkPolicy',
    name === 'single.yaml' ? 'StatefulSet' : 'Deployment',
  ])
  for (const { metadata } of manifests) expect(metadata).toMatchObject({ name: 'coffer', namespace: 'coffer', labels })
  const workload = manifests.at(-1)?.spec
  expect(workload?.template?.metadata.labels).toEqual(labels)
  expect(workload?.selector).toEqual({ matchLabels: labels })
  expect(find('Service')?.spec.selector).toEqual(labels)
  expect(find('PodDisruptionBudget')?.spec.selector).toEqual({ matchLabels: labels })
  expect(find('NetworkPolicy')?.spec.podSelector).toEqual({ matchLabels: labels })
})

test.each(['single.yaml', 'nodes.yaml'])('%s: the pod is restricted, probed, and given what it mounts', (name) => {
  const { template, volumeClaimTemplates = [] } = readManifests(name).at(-1)?.spec ?? {}
  const [container, ...others] = template?.spec.containers ?? []
  if (!template || !container) throw new Error('there is no container')
  expect(others).toEqual([])
  expect(container.image).toMatch(new RegExp(`/coffer:${version}$`))
  expect(template.spec).toMatchObject({
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: 'RuntimeDefault' } },
  })
  // The stop takes up to 10 seconds, after the 5 of the hook.
  expect(template.spec.terminationGracePeriodSeconds).toBeGreaterThan(15)
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  })
  const paths = { startupProbe: '/healthz', livenessProbe: '/healthz', readinessProbe: '/readyz' }
  for (const [probe, path] of Object.entries(paths)) {
    expect(container[probe]).toMatchObject({ httpGet: { path, port: 'https', scheme: 'HTTPS' } })
  }
  expect(container.ports.map((port) => port.name)).toEqual(['https', 'metrics'])
  expectToStart(Object.fromEntries(container.env.map((variable) => [variable.name, variable.value])))

  // Backups and the socket of a sealed service need a folder on a disk; the root is read-only.
  expect(container.volumeMounts).toContainEqual({ name: 'data', mountPath: imageSettings.COFFER_DATA_DIR })
  const temporary = container.env.find((variable) => variable.name === 'TMPDIR')?.value
  expect(temporary).toBe(name === 'nodes.yaml' ? imageSettings.COFFER_DATA_DIR : undefined)

  const volumes = [...template.spec.volumes, ...volumeClaimTemplates.map(({ metadata }) => metadata)]
  expect(container.volumeMounts.map((mount) => mount.name).toSorted()).toEqual(volumes.map((v) => v.name).toSorted())
  for (const { name: volume, secret } of template.spec.volumes) {
    if (!secret) continue
    const example = exampleSecrets.find(({ metadata }) => metadata.name === secret.secretName)
    const folder = container.volumeMounts.find((mount) => mount.name === volume)?.mountPath
    const files = container.env.flatMap(({ value }) => value.match(`${folder}/(\\S+)`)?.[1] ?? [])
    expect(files.toSorted()).toEqual(Object.keys(example?.stringData ?? {}).toSorted())
  }
})

test('the unit of systemd starts the package, and its settings are known', () => {
  const unit = read('deploy/systemd/coffer.service')
  expect(unit).toMatch(/^ExecStart=\/opt\/coffer\/node_modules\/\.bin\/coffer-server serve$/m)
  const settings = Object.fromEntries(
    [...unit.matchAll(/\b(COFFER_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  )
  expect(readConfig(settings).dataDir).toBe('/var/lib/coffer')
})
