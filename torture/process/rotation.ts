/** Root-key rotation under load, while both the rotation and the service are killed: no data is lost. */
import { runProgram, startListening, startProgram } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import { bothEngines, type Case } from '../case.ts'
import { ask, pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { createToken, register, verifyTrail } from '../load/tenant.ts'

const rotateCommand = ['keys', 'rotate-root']
const tokenCount = 40

export const rotation: Case = {
  name: 'rotation',
  about: 'root-key rotation under load, with kills of the rotation and the service',
  engines: bothEngines,
  seconds: 45,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    let service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const session = await register(service.url)
    const registers = await createRegisters(trial, service.url, session)
    const credentials = [session, registers.reader, registers.writer]
    for (let count = 0; count < tokenCount; count++) credentials.push(await createToken(service.url, session, 'read'))
    const load = startLoad(() => service.url, registers, { pauseMs: 5, mayBeCut: () => true })
    const counts = {
      'rotations killed': 0,
      'services killed': 0,
      'rotations completed': 0,
      'acknowledged writes': 0,
      reads: 0,
    }
    const due = trial.scale(10)
    for (let round = 0; round < due && !trial.isOver() && load.unexpected.length === 0; round++) {
      const rotating = startProgram(rotateCommand, settings)
      await until(() => rotating.hasEnded() || rotating.out() !== '' || undefined, 120_000, 'the rotation starts')
      await pause(trial.dice(2_500))
      if (trial.dice(3) === 0) {
        await service.destroy()
        counts['services killed']++
        service = await startListening(settings)
      }
      if (!rotating.hasEnded()) counts['rotations killed']++
      rotating.kill('SIGKILL')
      await rotating.ended
      trial.progress(`${round + 1} of ${due} rotations`)
    }
    const completed = await runProgram(rotateCommand, settings)
    if (completed.code === 0) counts['rotations completed']++
    else trial.report(`the last rotation exited with ${completed.code}: ${completed.err}`)
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    for (const afterRestart of [false, true]) {
      if (afterRestart) {
        await service.stop()
        service = await startListening(settings)
      }
      for (const token of credentials) {
        const { status } = await ask(service.url, 'GET', '/v1/workspace/main/team', { token })
        if (status !== 200) trial.report(`a credential from before the rotation returned ${status}`)
      }
      for (const what of await checkRegisters(service.url, registers)) trial.report(what)
      for (const what of await verifyTrail(service.url, session)) trial.report(what)
    }
    const doctor = await runProgram(['doctor'], settings)
    if (doctor.code !== 0) trial.report(`doctor reports: ${doctor.out}`)
    counts['acknowledged writes'] = load.acknowledged
    return { ...counts, reads: load.reads }
  },
}
