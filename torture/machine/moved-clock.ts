/** Preloaded into the service: shifts its wall clock by the milliseconds in the last line of stdin, at first by MOVED_CLOCK_MS. */
const realNow = Date.now
let offsetMs = Number(process.env.MOVED_CLOCK_MS ?? 0)

process.stdin.setEncoding('utf8').on('data', (text: string) => {
  offsetMs = Number(text.trim().split('\n').at(-1))
  process.stdout.write(`clock moved by ${offsetMs}\n`)
})

Date.now = () => realNow() + offsetMs
globalThis.Date = new Proxy(Date, {
  construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [Date.now()] : args, newTarget),
})
