// npm runs a script in a shell, which a signal to npm ends without passing it on. So a process that npm started stops by
// itself once its parent is gone, whose number `launch.js` gives.
const parent = Number(new URL(import.meta.url).searchParams.get('parent'))

setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
}, 500).unref()
