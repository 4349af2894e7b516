/** Installs programs that are not on npm from the Debian packages of the same names (of psql: postgresql-client, of python-dotenv: python3-dotenv), if possible. */
import { spawn, spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0
}

/** Test files install programs in parallel, but apt refuses to run twice at once. */
const lock = join(tmpdir(), 'coffer-debian-package.lock')
const install = `missing=
for name; do command -v "$name" > /dev/null || missing="$missing $name"; done
missing=$(echo "$missing" | sed 's/\\bpsql\\b/postgresql-client/; s/\\bpython-dotenv\\b/python3-dotenv/')
[ -z "$missing" ] && exit
apt='apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600'
$apt update; $apt install -y --no-install-recommends $missing`
const command = (packages: readonly string[]) => ['flock', [lock, 'sh', '-c', install, 'sh', ...packages]] as const
const options = () => ({ env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, stdio: 'ignore' }) as const

/** Ignores failures, since there may be no Debian, network or root: check `isInstalled` afterwards. */
export function installPackages(packages: readonly string[]): void {
  spawnSync(...command(packages), options())
}

/** Starts to install missing programs; `requirePrograms` waits for them. */
export function startInstalling(...programs: readonly string[]): void {
  spawn(...command(programs), options())
    .on('error', () => undefined)
    .unref()
}

/** For the top of a test file: installs missing programs, and throws if that fails. */
export async function requirePrograms(...programs: readonly string[]): Promise<void> {
  // Programs that are there may be half installed by another process, which has the lock.
  await new Promise((resolve) => {
    const installing = spawn(...command(programs), options())
    installing.once('error', resolve).once('close', resolve)
  })
  const absent = programs.filter((program) => !isInstalled(program))
  if (absent.length > 0) throw new Error(`These tests need ${absent.join(', ')}: install the packages of these names.`)
}
