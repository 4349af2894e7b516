/** Requests of a login name the program and the machine: the approval page and the list of sessions show them. */
import { nodeTransport } from '@coffer/sdk/node'
import { version } from '../version.ts'

type Transport = typeof nodeTransport

export const namedTransport: Transport = (request) =>
  nodeTransport({ ...request, headers: { ...request.headers, 'user-agent': describeProgram() } })

/** A header holds ASCII only, and names of machines hold anything. */
function describeProgram(): string {
  const machine = process.getBuiltinModule('node:os').hostname()
  return `coffer/${version} (${machine.replace(/[^\x21-\x7e]/g, '?')}; ${process.platform})`
}
