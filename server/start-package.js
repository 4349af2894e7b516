#!/usr/bin/env -S MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=32768 node --max-semi-space-size=16 --heap-growing-percent=30
// The start of the package. V8 and the allocator of the system read their limits before the first line of a program, so
// they are above. Linux before 5.1 reads only 127 characters of that line. An old Node can read this file too, and says what is missing.
import { enableCompileCache } from './compile-cache.js'

if (Number.parseInt(process.versions.node, 10) < 24) {
  process.stderr.write(`coffer-server needs Node 24 or later; this is Node ${process.versions.node}.\n`)
  process.exitCode = 1
} else {
  enableCompileCache()
  await import('./lib/main.js')
}
