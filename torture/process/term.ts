/** SIGTERM under load: every request gets a response, acknowledged writes survive, and the shutdown is quick. */
import { messagesOf } from '../../test/program.ts'
import { startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case } from '../case.ts'
import { ask, must } from '../load/ask.ts'
import { keepConnection } from '../load/kept-connection.ts'
import { register } from '../load/tenant.ts'

const teams = '/v1/workspace/main/team'
const workers = 16
/**
 * Idle connections stay open for this long. A request can still be lost on a connection that is just being closed, or
 * on a new one that is never accepted: these races are part of HTTP and TCP, and are counted separately.
 */
const idleCloseMs = 1_500

export const term: Case = {
  name: 'term',
  about: 'SIGTERM under load: no request is dropped',
  engines: bothEngines,
  seconds: 25,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    let service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const token = await register(service.url)
    const counts = {
      stops: 0,
      answers: 0,
      'acknowledged writes': 0,
      'refused with 503': 0,
      dropped: 0,
      'never accepted': 0,
      'lost on a closing connection': 0,
    }
    const due = trial.scale(8)
    while (counts.stops < due && !trial.isOver()) {
      const load = startLoad(service.url, token, counts.stops)
      const stopAfter = 20 + trial.dice(80)
      await until(() => load.made.length > stopAfter || load.wrong.length > 0 || undefined, 120_000, 'the load runs')
      const stoppedAt = performance.now()
      service.program.kill(trial.dice(2) === 0 ? 'SIGTERM' : 'SIGINT')
      const { code, out } = await service.program.ended
      await load.ended
      const isDropped = ({ isFirst, sentAt, endedAt }: CutOff) =>
        !isFirst && (sentAt < stoppedAt || endedAt < stoppedAt + idleCloseMs)
      const dropped = load.cutOff.filter(isDropped)
      for (const { what } of dropped) trial.report(`a request was dropped: ${what}`)
      for (const what of load.wrong) trial.report(what)
      // The exit code is 1 if the shutdown took longer than 10 seconds.
      if (code !== 0 || !messagesOf(out).includes('stopped')) trial.report(`the service exited with ${code}`)
      service = await startListening(settings)
      const listed = await must<{ id: string; name: string }[]>(service.url, 'GET', teams, { token })
      const names = new Set(listed.map(({ name }) => name))
      for (const name of load.made.filter((name) => !names.has(name)))
        trial.report(`${name} was acknowledged and is missing`)
      counts.stops++
      counts.answers += load.answers()
      counts['acknowledged writes'] += load.made.length
      counts['refused with 503'] += load.refused()
      counts.dropped += dropped.length
      counts['never accepted'] += load.cutOff.filter(({ isFirst }) => isFirst).length
      counts['lost on a closing connection'] += load.cutOff.filter((one) => !one.isFirst && !isDropped(one)).length
      trial.progress(`${counts.stops} of ${due} stops`)
      for (const { id, name } of listed)
        if (name.startsWith('team ')) await ask(service.url, 'DELETE', `${teams}/${id}`, { token })
    }
    return counts
  },
}

type CutOff = { readonly what: string; readonly isFirst: boolean; readonly sentAt: number; readonly endedAt: number }

/** Half of the workers write and half read, one request after another, until connections are refused. */
function startLoad(url: string, token: string, round: number) {
  const made: string[] = []
  const wrong: string[] = []
  const cutOff: CutOff[] = []
  let answers = 0
  let refused = 0
  const work = async (worker: number) => {
    const connection = keepConnection(url, token)
    for (let count = 0; wrong.length === 0; count++) {
      const name = `team ${round} ${worker} ${count}`
      const writes = worker % 2 === 0
      const sentAt = performance.now()
      const outcome = await connection.send(
        writes ? 'POST' : 'GET',
        teams,
        writes ? JSON.stringify({ name }) : undefined,
      )
      if ('lost' in outcome) {
        const { lost: what, isRefused, isFirst } = outcome
        if (!isRefused) cutOff.push({ what, isFirst, sentAt, endedAt: performance.now() })
        break
      }
      answers++
      const { status, text } = outcome
      if (status === 201) made.push(name)
      else if (status === 503) refused++
      else if (status !== 200) wrong.push(`${writes ? 'POST' : 'GET'} ${teams}: ${status} ${text}`)
    }
    connection.close()
  }
  const ended = Promise.all(Array.from({ length: workers }, (_, index) => work(index)))
  return { made, wrong, cutOff, ended, answers: () => answers, refused: () => refused }
}
