#!/usr/bin/env node
// Plain JavaScript on purpose: it switches the compile cache on before the first TypeScript file is read, so that from
// the second start on nothing is stripped or compiled again.
import { enableCompileCache } from 'node:module'

enableCompileCache()
const { main } = await import('./src/main.ts')
await main()
