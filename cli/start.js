#!/usr/bin/env node
// Plain JavaScript on purpose: it switches the compile cache on before the first TypeScript file is read, so that from
// the second start on nothing is stripped or compiled again. An old Node can read it too, and says what is missing.
import { enableCompileCache } from '../compile-cache.js'

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`coffer needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else {
  enableCompileCache()
  const { main } = await import('./src/main.ts')
  await main()
}
