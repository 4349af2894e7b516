// Plain JavaScript on purpose: it switches the compile cache on before the first TypeScript file is read, so that from
// the second start on nothing is stripped or compiled again.
import { enableCompileCache } from '../compile-cache.js'

enableCompileCache()
await import('./src/main.ts')
