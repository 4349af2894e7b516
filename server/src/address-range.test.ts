import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../test/tier.ts'
import { isInRange, isSpecialPurpose, meantRange, parseAddress, parseRange } from './address-range.ts'

function isSpecial(text: string): boolean {
  const address = parseAddress(text)
  return address === undefined || isSpecialPurpose(address)
}

describe('special-purpose addresses', () => {
  // The first and the last address of each range, so that a prefix that is one bit off fails.
  test.each([
    ['0.0.0.0', '0.255.255.255'],
    ['10.0.0.0', '10.255.255.255'],
    ['100.64.0.0', '100.127.255.255'],
    ['127.0.0.0', '127.255.255.255'],
    ['169.254.0.0', '169.254.255.255'],
    ['172.16.0.0', '172.31.255.255'],
    ['192.0.0.0', '192.0.0.255'],
    ['192.0.2.0', '192.0.2.255'],
    ['192.88.99.0', '192.88.99.255'],
    ['192.168.0.0', '192.168.255.255'],
    ['198.18.0.0', '198.19.255.255'],
    ['198.51.100.0', '198.51.100.255'],
    ['203.0.113.0', '203.0.113.255'],
    ['224.0.0.0', '239.255.255.255'],
    ['240.0.0.0', '255.255.255.255'],
    ['168.63.129.16', '168.63.129.16'],
    ['::', '::1'],
    ['::127.0.0.1', '::8.8.8.8'],
    ['::ffff:127.0.0.1', '::ffff:7f00:1'],
    ['::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8'],
    ['64:ff9b::', '64:ff9b::ffff:ffff'],
    ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
    ['100::', '100::ffff:ffff:ffff:ffff'],
    ['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['fe80::1%eth0', '::1%lo'],
    ['', 'localhost'],
    ['127.1', '0177.0.0.1'],
  ])('contain %s to %s', (first, last) => {
    expect([isSpecial(first), isSpecial(last)]).toEqual([true, true])
  })

  test.each([
    ['1.0.0.0', '9.255.255.255'],
    ['11.0.0.0', '100.63.255.255'],
    ['100.128.0.0', '126.255.255.255'],
    ['128.0.0.0', '169.253.255.255'],
    ['169.255.0.0', '172.15.255.255'],
    ['172.32.0.0', '191.255.255.255'],
    ['192.0.1.0', '192.0.1.255'],
    ['192.0.3.0', '192.88.98.255'],
    ['192.88.100.0', '192.167.255.255'],
    ['192.169.0.0', '198.17.255.255'],
    ['198.20.0.0', '198.51.99.255'],
    ['198.51.101.0', '203.0.112.255'],
    ['203.0.114.0', '223.255.255.255'],
    ['::ffff:8.8.8.8', '::ffff:808:808'],
    ['2001:200::', '2001:db7:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2001:db9::', '2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2003::', '3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['3fff:1000::', '3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['2606:4700:4700::1111', '2a00:1450:4001:80b::200e'],
  ])('do not contain %s and %s', (first, last) => {
    expect([isSpecial(first), isSpecial(last)]).toEqual([false, false])
  })
})

describe('ranges', () => {
  test.each([
    '10.0.0.1/8',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '::/129',
    '::ffff:0:0/96',
    'x/8',
  ])('reject %s', (text) => expect(parseRange(text)).toBeUndefined())

  // net.BlockList is an independent implementation of the same check.
  test.each([
    ['ipv4', fc.ipV4(), 32],
    ['ipv6', fc.ipV6(), 128],
  ] as const)('contain the same addresses as in Node, for %s', (family, addresses, width) => {
    fc.assert(
      fc.property(
        addresses,
        addresses,
        fc.integer({ min: 0, max: width }),
        fc.boolean(),
        (network, other, length, near) => {
          const base = parseAddress(network)
          const candidate = parseAddress(other)
          fc.pre(base !== undefined && candidate !== undefined)
          fc.pre(base?.family === candidate?.family && (base?.family === 4) === (family === 'ipv4'))
          if (base === undefined || candidate === undefined) return

          const list = new BlockList()
          list.addSubnet(network, length, family)
          const hostBits = BigInt(width - length)
          const range = { family: base.family, network: (base.bits >> hostBits) << hostBits, prefixLength: length }
          const probe = near ? network : other
          expect(isInRange(near ? base : candidate, range)).toBe(list.check(probe, family))
        },
      ),
      { numRuns: times(200, 2_000) },
    )
  })
})

test.each([
  ['10.0.0.1/8', '10.0.0.0/8'],
  ['192.168.1.77/27', '192.168.1.64/27'],
  ['1.2.3.4/0', '0.0.0.0/0'],
  ['2001:db8::1/32', '2001:db8::/32'],
  ['10.0.0.0/8', undefined],
  ['10.0.0.1', undefined],
  ['10.0.0.1/33', undefined],
  ['10.0.0/8', undefined],
  ['::ffff:10.0.0.1/104', undefined],
])('the range intended by %s is %s', (text, meant) => expect(meantRange(text)).toBe(meant))
