/** The socket of a sealed service: for its own user alone, wherever its folder is, and deaf to hostile peers. */
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { refusalOf } from '../../../test/master-key.ts'
import { handToService, listenForShares } from './unseal-socket.ts'

let folder = ''
let listening: { close(): Promise<void> } | undefined
const peers: Socket[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-unseal-'))
})
afterEach(async () => {
  for (const peer of peers.splice(0)) peer.destroy()
  await listening?.close()
  listening = undefined
  await rm(folder, { recursive: true })
})

const echo = async (line: Buffer) => ({ isAccepted: true, isUnsealed: false, message: line.toString('hex') })
const hand = (text: string, dataDir = folder) => handToService(dataDir, Buffer.from(text))

function openPeer(): Promise<Socket> {
  const peer = connect(join(folder, 'unseal', 'socket'))
  peers.push(peer)
  peer.on('error', () => undefined)
  return new Promise((resolve) => peer.once('connect', () => resolve(peer)))
}

test('the socket and its folder are open to their user alone, also if the folder was there before', async () => {
  await mkdir(join(folder, 'unseal'), { mode: 0o777 })
  listening = await listenForShares(folder, echo)
  expect((await stat(join(folder, 'unseal'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(folder, 'unseal', 'socket'))).mode & 0o777).toBe(0o600)
  expect(await hand('share')).toMatchObject({ message: Buffer.from('share').toString('hex') })
  await listening.close()
  listening = undefined
  expect(await hand('share')).toBeUndefined()
  await expect(stat(join(folder, 'unseal', 'socket'))).rejects.toThrow('ENOENT')
})

test('works in a folder whose path is too long for a socket', async () => {
  const deep = join(folder, 'x'.repeat(120), 'y'.repeat(120))
  await mkdir(deep, { recursive: true })
  expect(await hand('nobody', deep)).toBeUndefined()
  listening = await listenForShares(deep, echo)
  expect((await stat(join(deep, 'unseal', 'socket'))).isSocket()).toBe(true)
  expect(await hand('share', deep)).toMatchObject({ isAccepted: true })
})

test('a socket that a killed service left is replaced, and one in use is not', async () => {
  await mkdir(join(folder, 'unseal'))
  await writeFile(join(folder, 'unseal', 'socket'), '')
  listening = await listenForShares(folder, echo)
  expect(await hand('share')).toMatchObject({ isAccepted: true })
  expect(await refusalOf(listenForShares(folder, echo))).toContain('Another sealed service uses the folder')
  expect(await hand('share')).toMatchObject({ isAccepted: true })
})

test('peers that are silent, hang up or send without end hold up nobody', async () => {
  listening = await listenForShares(folder, echo)
  for (let count = 0; count < 8; count++) await openPeer()
  const early = await openPeer()
  early.end('half a share')
  const endless = await openPeer()
  const closed = new Promise((resolve) => endless.once('close', resolve))
  endless.write('x'.repeat(5_000))
  await closed
  expect(await hand('share')).toMatchObject({ isAccepted: true })
})

test('an answer that fails leaves the socket open for the next', async () => {
  let calls = 0
  listening = await listenForShares(folder, async (line) => {
    if (++calls === 1) throw new Error('hunter2')
    return echo(line)
  })
  expect(await refusalOf(hand('share'))).toContain('did not answer')
  expect(await hand('share')).toMatchObject({ isAccepted: true })
})
