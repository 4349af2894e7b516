// npm runs a script in a shell, which a signal to npm ends without passing it on. So a process that npm started stops by
// itself once its parent is gone.
const parent = process.ppid

setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
}, 500).unref()
