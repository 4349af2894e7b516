#!/usr/bin/env node
// The start of the package. It keeps the compiled program after the first `coffer run`. Node's own compile cache would not
// hold the functions, because they are compiled when they are called.

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`coffer needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else {
  start(`${__dirname}/main.js`)
}

function start(path) {
  const { readFileSync } = process.getBuiltinModule('node:fs')
  const { Script } = process.getBuiltinModule('node:vm')
  const kept = findKept(process.env)
  const script = new Script(readFileSync(path, 'latin1'), { filename: path, cachedData: kept?.data })
  const main = new module.constructor(path, module)
  require.cache[path] = main
  script.runInThisContext()(main.exports, require, main)
  main.loaded = true
  // In CI nobody starts it again from the same home.
  const isUsual = process.argv[2] === 'run' && !process.argv.includes('--offline') && !process.env.CI
  if (kept && isUsual && script.cachedDataRejected !== false) {
    process.once('exit', (code) => code === 0 && keep(kept, script))
  }
  main.exports.main()
}

// Whoever can write to the file can change the program: it is used only in a folder of this user, below a home of this user.
// With `sudo` the home may be somebody else's. CONTENT is the hash of the program: V8 compares only its length.
function findKept({ HOME, XDG_CACHE_HOME }) {
  if (!isOwn(XDG_CACHE_HOME || HOME)) return undefined
  const folder = `${XDG_CACHE_HOME || `${HOME}/.cache`}/coffer-compiled`
  const file = `${folder}/CONTENT-${process.version}-${process.arch}`
  try {
    return { folder, file, data: isOwn(folder) ? process.getBuiltinModule('node:fs').readFileSync(file) : undefined }
  } catch {
    return { folder, file, data: undefined }
  }
}

function isOwn(path) {
  try {
    const { uid, mode } = process.getBuiltinModule('node:fs').statSync(path)
    return uid === process.getuid?.() && (mode & 0o022) === 0
  } catch {
    return false
  }
}

function keep({ folder, file }, script) {
  const { mkdirSync, renameSync, writeFileSync } = process.getBuiltinModule('node:fs')
  const fresh = `${file}.${process.pid}`
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (!isOwn(folder)) return
    writeFileSync(fresh, script.createCachedData(), { mode: 0o600, flag: 'wx', flush: true })
    renameSync(fresh, file)
  } catch {
    // Nothing can be written there.
  }
}
