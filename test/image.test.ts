/** The image of deploy/Dockerfile, built with buildah on a base of this machine's Node, and run as a container runs it. */
import { execFile } from 'node:child_process'
import { chown, cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { caller } from './caller.ts'
import { requirePrograms } from './debian-package.ts'
import { freePort } from './postgres.ts'
import { type Listening, listening, type Settings, startCommand } from './program.ts'
import { until } from './wait.ts'

await requirePrograms('buildah')

const root = join(import.meta.dirname, '..')
const run = promisify(execFile)
const uid = 10_001
let folder: string
let image: string
let config: ImageConfig

type ImageConfig = {
  readonly User: string
  readonly Env: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly StopSignal: string
  readonly Volumes: Readonly<Record<string, unknown>>
  readonly Labels: Readonly<Record<string, string>>
  readonly Healthcheck: { readonly Test: readonly string[] }
}

const buildah = async (...args: string[]) => {
  const store = ['--storage-driver', 'vfs', '--root', join(folder, 'store'), '--runroot', join(folder, 'run')]
  return (await run('buildah', [...store, ...args], { maxBuffer: 64 * 1024 ** 2 })).stdout.trim()
}

/** Copies programs of this machine, with the libraries that they load. */
async function copyPrograms(base: string, programs: Readonly<Record<string, string>>): Promise<void> {
  const libraries = new Set<string>()
  for (const [name, source] of Object.entries(programs)) {
    const target = join(base, name)
    await mkdir(dirname(target), { recursive: true })
    await cp(await realpath(source), target)
    const { stdout } = await run('ldd', [target])
    for (const [path] of stdout.matchAll(/\/\S+\.so[.\d]*/g)) libraries.add(path)
  }
  const [libc = ''] = [...libraries].filter((path) => /\/libc\.so/.test(path))
  // Loaded by name: for host names, and by the native parts of the builder.
  for (const name of ['libnss_dns.so.2', 'libresolv.so.2', 'librt.so.1', 'libutil.so.1']) {
    libraries.add(join(dirname(libc), name))
  }
  for (const path of libraries) {
    await mkdir(dirname(join(base, path)), { recursive: true })
    await cp(await realpath(path), join(base, path))
  }
}

/** Node, a shell and nothing else; for the first stage also npm, and the authorities that npm needs on this machine. */
async function makeBase(name: string, hasNpm: boolean): Promise<void> {
  const base = join(folder, name)
  for (const part of ['tmp', 'proc', 'dev', 'root', 'etc']) await mkdir(join(base, part), { recursive: true })
  const tools = Object.fromEntries(['env', 'sh', 'cat', 'mkdir'].map((tool) => [`bin/${tool}`, `/bin/${tool}`]))
  await copyPrograms(base, { ...tools, 'usr/local/bin/node': process.execPath, 'usr/bin/env': '/usr/bin/env' })
  const lines = ['FROM scratch', 'COPY . /', 'ENV PATH=/usr/local/bin:/usr/bin:/bin']
  if (hasNpm) {
    const npm = join(await realpath((await run('which', ['npm'])).stdout.trim()), '../..')
    await cp(npm, join(base, 'usr/lib/npm'), { recursive: true })
    await symlink('../lib/npm/bin/npm-cli.js', join(base, 'usr/bin/npm'))
    const { NODE_EXTRA_CA_CERTS: authorities } = process.env
    if (authorities) {
      await cp(await realpath(authorities), join(base, 'etc/authorities.pem'))
      lines.push('ENV NODE_EXTRA_CA_CERTS=/etc/authorities.pem')
    }
  }
  await writeFile(join(folder, `${name}.Dockerfile`), lines.join('\n'))
  await buildah('bud', '--isolation', 'chroot', '-f', join(folder, `${name}.Dockerfile`), '-t', name, base)
}

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'coffer-image-')))
  await makeBase('build-base', true)
  await makeBase('run-base', false)
  const bases = ['--build-arg', 'BUILD_BASE=localhost/build-base', '--build-arg', 'BASE=localhost/run-base']
  // The format of Docker has health checks.
  const options = ['--isolation', 'chroot', '--format', 'docker', ...bases]
  await buildah('bud', ...options, '-f', join(root, 'deploy/Dockerfile'), '-t', 'coffer', root)
  const inspected = JSON.parse(await buildah('inspect', '--type', 'image', 'localhost/coffer'))
  config = inspected.Docker.config
  image = await buildah('mount', await buildah('from', 'localhost/coffer'))
}, 1_800_000)
afterAll(() => rm(folder, { recursive: true, force: true }))

test('the image runs the service as a user by number, checks its health, and stops by SIGTERM', () => {
  expect(config).toMatchObject({
    User: `${uid}:${uid}`,
    Entrypoint: ['coffer-server'],
    Cmd: ['serve'],
    StopSignal: 'SIGTERM',
    Volumes: { '/data': {} },
    Healthcheck: { Test: ['CMD', 'coffer-server', 'health'] },
  })
  expect(config.Labels['org.opencontainers.image.title']).toBe('Coffer')
})

test('it holds the package and its one dependency: no sources, no builder, nothing that is writable', async () => {
  expect((await readdir(image)).toSorted()).toEqual(
    [...(await readdir(join(folder, 'run-base'))), 'data', 'opt'].toSorted(),
  )
  const { stdout: files } = await run('find', [join(image, 'opt'), '-name', '*.ts', '-not', '-path', '*/@node-rs/*'])
  expect(files).toBe('')
  const { stdout: writable } = await run('find', [
    image,
    '-xdev',
    '(',
    '-perm',
    '-0002',
    '-o',
    '-user',
    String(uid),
    ')',
  ])
  const found = writable.split('\n').filter((path) => path !== '' && path !== join(image, 'tmp'))
  // Links have every right, and none.
  const real = await Promise.all(found.map(async (path) => ((await realpath(path)) === path ? [path] : [])))
  expect(real.flat()).toEqual([join(image, 'data')])
})

/** Makes the root read-only but for the volume and /tmp, gives up all rights, and runs the command as process 1. */
const container = `set -e
image=$1 data=$2; shift 2
mount --make-rprivate /
mount --bind "$image" "$image"
mount -o remount,ro,bind "$image"
mount --bind "$data" "$image/data"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$image/tmp"
mount -t proc proc "$image/proc"
exec chroot --userspec=${uid}:${uid} "$image" /usr/bin/env -i -C /data "$@"`

/** The command of the image, in namespaces of its own for processes and mounts, with the network of this machine. */
function startContainer(data: string, settings: Settings, command: readonly string[]): Promise<Listening> {
  const variables = [...config.Env, ...Object.entries(settings).map(([name, value]) => `${name}=${value}`)]
  const isolated = ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', container, 'sh', image, data]
  return listening(startCommand('unshare', [...isolated, ...variables, ...command]))
}

/** The process of the service, as this machine counts. */
async function findProcess(parent: number | undefined): Promise<number> {
  const children = await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8')
  return Number(children.trim().split(' ')[0])
}

test('as process 1 with a read-only root it serves, refuses strangers the first account, and stops with 0', async () => {
  const data = join(folder, 'data')
  await mkdir(data, { mode: 0o700 })
  await chown(data, uid, uid)
  const port = await freePort()
  const settings = { COFFER_PORT: String(port), COFFER_PUBLIC_URL: 'https://coffer.example.com' }
  const start = [...config.Entrypoint, ...config.Cmd]
  await expect(startContainer(data, settings, start)).rejects.toThrow('set COFFER_TLS_CERT_FILE')

  const proxied = { ...settings, COFFER_TRUSTED_PROXIES: '127.0.0.1/32' }
  for (const round of ['first', 'second']) {
    const service = await startContainer(data, proxied, start)
    const pid = await until(
      async () => (await findProcess(service.program.child.pid)) || undefined,
      120_000,
      'the service has a process',
    )
    const stop = () => process.kill(pid, 'SIGTERM')
    onTestFinished(() => service.program.kill('SIGKILL'))
    const status = await readFile(`/proc/${pid}/status`, 'utf8')
    expect(status).toMatch(/^NSpid:\t\d+\t1$/m)
    expect(status).toMatch(new RegExp(`^Uid:\t${uid}\t${uid}\t${uid}\t${uid}$`, 'm'))
    expect(status).toMatch(/^CapEff:\t0+$/m)

    const call = caller(service.url)
    expect((await call('GET', '/readyz')).status).toBe(200)
    const login = { email: 'owner@example.com', password: 'correct horse battery staple' }
    const owner = { ...login, name: 'Owner' }
    if (round === 'first') {
      // The first account always needs the code from the log: the container is reached from outside.
      expect((await call('POST', '/v1/auth/register', { body: owner })).status).toBe(403)
      const [, setupCode] = /^Setup code: ([\w-]+)$/m.exec(service.messages().join('\n')) ?? []
      expect((await call('POST', '/v1/auth/register', { body: { ...owner, setupCode } })).status).toBe(201)
      const health = ['chroot', `--userspec=${uid}:${uid}`, image, '/usr/bin/env', '-i', ...config.Env]
      const [command = '', ...args] = [...health, `COFFER_PORT=${port}`, 'coffer-server', 'health']
      expect((await run(command, args)).stdout).toContain('status 200')
    } else {
      expect((await call('POST', '/v1/auth/login', { body: login })).status).toBe(200)
    }
    stop()
    expect(await service.program.ended).toMatchObject({ code: 0, err: '' })
  }
})
