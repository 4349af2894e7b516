#!/usr/bin/env -S node --max-semi-space-size=16 --heap-growing-percent=30
// The start of the package. V8 reads the size of its young generation before the first line of a program, so the options
// are above. An old Node can read this file too, and says what is missing.
import module from 'node:module'

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`coffer-server needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else {
  module.enableCompileCache()
  await import('./lib/main.js')
}
