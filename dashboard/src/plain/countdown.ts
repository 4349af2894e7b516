/** Removes what a page shows after a minute, unless somebody asks for more time. */
import { button, element } from './element.ts'
import { announce } from './page.ts'

const lifeSeconds = 60
/** Enough to find the button that adds time, also for people who need longer. */
const warningSeconds = 20

type Countdown = { readonly row: HTMLElement; stop(): void }

/** Calls `onEnd` once: after the time, at the button, or when the page is left. */
export function startCountdown(onEnd: () => void): Countdown {
  const left = element('p', { role: 'timer' })
  let seconds = lifeSeconds
  let endsAt = 0

  function fill(): void {
    seconds = lifeSeconds
    endsAt = Date.now() + lifeSeconds * 1_000
    show()
  }

  function show(): void {
    left.textContent = `Removed in ${seconds} s`
  }

  /** Timers are late in hidden tabs, and clocks can be set back: the earlier of the two counts. */
  function tick(): void {
    const before = seconds
    seconds = Math.min(seconds - 1, Math.ceil((endsAt - Date.now()) / 1_000))
    show()
    if (seconds <= 0) end()
    else if (before > warningSeconds && seconds <= warningSeconds) {
      announce(`Removed in ${seconds} seconds. Press Keep for another minute if you need more time.`)
    }
  }

  function stop(): void {
    clearInterval(timer)
    removeEventListener('pagehide', end)
    document.removeEventListener('freeze', end)
    document.removeEventListener('visibilitychange', tickIfLate)
  }

  function end(): void {
    stop()
    onEnd()
  }

  const tickIfLate = () => {
    if (Date.now() >= endsAt) end()
  }

  fill()
  const timer = setInterval(tick, 1_000)
  // A page that somebody comes back to could otherwise show the content again.
  addEventListener('pagehide', end)
  document.addEventListener('freeze', end)
  document.addEventListener('visibilitychange', tickIfLate)
  const more = button('Keep for another minute', 'plain', () => {
    fill()
    announce('Kept for another minute.')
  })
  return {
    row: element('div', { className: 'countdown' }, left, more, button('Remove now', 'plain', end)),
    stop,
  }
}
