#!/usr/bin/env node
// Plain JavaScript on purpose: it switches the compile cache on before the program is read, so that from the second start
// on nothing is stripped or compiled again. An old Node can read it too, and says what is missing.

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`coffer needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else {
  useCompileCache(process.env)
  const { main } = await import('./src/main.ts')
  await main()
}

// Whoever can write to the cache can change the program: it is used only in a folder of this user, below a home of this
// user. With `sudo`, the home may be somebody else's.
function useCompileCache({ HOME, XDG_CACHE_HOME, NODE_COMPILE_CACHE }) {
  if (NODE_COMPILE_CACHE) return
  const { mkdirSync, statSync } = process.getBuiltinModule('node:fs')
  const folder = `${XDG_CACHE_HOME || `${HOME}/.cache`}/coffer-compiled`
  const isOwn = (path) => {
    const { uid, mode } = statSync(path)
    return uid === process.getuid?.() && (mode & 0o022) === 0
  }
  try {
    if (!isOwn(XDG_CACHE_HOME || HOME)) return
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (isOwn(folder)) process.getBuiltinModule('node:module').enableCompileCache(folder)
  } catch {
    // There is no home, or nothing can be written there.
  }
}
