/** How the service is reached: TLS, its certificate, and the public URL. */
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { type Config, isLoopback, type TlsFiles } from '../../config.ts'
import { dayMs } from '../../domain/time.ts'
import { readKeyPair } from '../../tls/certificate.ts'
import { plainHttpProblem } from '../../tls/plain-http.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const noteDays = 30
const wrongDays = 7

const inTheClear = 'Passwords, tokens and secrets cross the network in the clear.'
const useTls = 'set COFFER_TLS_CERT_FILE and COFFER_TLS_KEY_FILE, or put a proxy with TLS in front.'

export function addressChecks(config: Config): Check[] {
  const { tls } = config
  const encryption: Check = {
    name: 'encryption',
    why: inTheClear,
    fix: useTls,
    run: async () => judgeEncryption(config),
  }
  const url: Check = {
    name: 'public URL',
    why: 'Links in mails and pages lead there.',
    fix: 'set COFFER_PUBLIC_URL.',
    run: async () => judgeUrl(config),
  }
  if (!tls) return [encryption, url]
  const certificate: Check = {
    name: 'certificate',
    why: 'Clients refuse to connect.',
    fix: 'renew it and replace the files; the service finds them within seconds.',
    run: () => checkCertificate(tls, config),
  }
  return [encryption, certificate, url]
}

function judgeEncryption(config: Config): Finding {
  const { tls, host, plainHttp, trustedProxies } = config
  const problem = plainHttpProblem(config)
  if (problem !== undefined) return wrong(problem, 'The service does not start.', useTls)
  if (tls) return ok('TLS in the service')
  if (isLoopback(host)) return ok(`plain http, on loopback only (${host})`)
  if (trustedProxies.length > 0) return ok('plain http behind a trusted proxy')
  return plainHttp ? note(`plain http on ${host}, as COFFER_PLAIN_HTTP asks`, inTheClear, useTls) : ok('plain http')
}

async function checkCertificate(files: TlsFiles, { publicUrl }: Config): Promise<readonly Finding[]> {
  const { cert, expiresAt } = await readKeyPair(files, Date.now())
  const days = Math.floor((expiresAt - Date.now()) / dayMs)
  const what = `valid until ${new Date(expiresAt).toISOString()}, ${days} days from now`
  const why = 'From then on clients refuse to connect.'
  const fix = 'renew it and replace the files; the service finds them within seconds.'
  const judge = days < wrongDays ? wrong : days < noteDays ? note : ok
  const host = new URL(publicUrl).hostname.replace(/^\[|\]$/g, '')
  const own = new X509Certificate(cert)
  const isFor = (isIP(host) === 0 ? own.checkHost(host) : own.checkIP(host)) !== undefined
  if (isFor) return [judge(what, why, fix)]
  return [
    judge(what, why, fix),
    wrong(
      `the certificate is not for ${host}, the host of COFFER_PUBLIC_URL`,
      'Clients that are given this address refuse to connect.',
      'get a certificate for that name, or set COFFER_PUBLIC_URL to a name of the certificate.',
    ),
  ]
}

function judgeUrl({ publicUrl, host, tls }: Config): Finding {
  const { protocol, hostname } = new URL(publicUrl)
  const isLocal = isLoopback(hostname.replace(/^\[|\]$/g, ''))
  if (tls && protocol === 'http:') {
    return wrong(
      `${publicUrl} is plain http`,
      'The service speaks https: links lead nowhere.',
      'begin it with https://.',
    )
  }
  if (isLocal && !isLoopback(host)) {
    return note(
      `${publicUrl} is this machine, but the service listens on ${host}`,
      'Links in invites and shares open on no other machine.',
      'set COFFER_PUBLIC_URL to the address that people use.',
    )
  }
  if (protocol === 'http:' && !isLocal)
    return note(`${publicUrl} is plain http`, inTheClear, 'use https in COFFER_PUBLIC_URL.')
  return ok(publicUrl)
}
