/** Answers of a bucket whose service means harm. */
import { setImmediate as turn } from 'node:timers/promises'
import type { S3Answer } from './s3-server.ts'

const mebibyte = 1024 * 1024
export const gigabytes = 1024 * mebibyte

/** A mebibyte of entries that begin and never end. */
export function unendedList(element: string): S3Answer {
  const begin = `<${element}>`
  return { status: 200, body: `<ListBucketResult>${begin.repeat(Math.floor(mebibyte / begin.length) - 10)}` }
}

/** A client that still follows it then is let go, so that its test can fail. */
const maxPages = 1_000

/** Each page names another one, at a new position or always at the same. */
export function endlessList(root: string, position?: string): () => S3Answer {
  let pages = 0
  return () => {
    const isTruncated = ++pages < maxPages
    const next = position ?? `position-${pages}`
    const names = ['NextContinuationToken', 'NextKeyMarker', 'NextUploadIdMarker', 'NextPartNumberMarker']
    const positions = names.map((name) => `<${name}>${next}</${name}>`).join('')
    return { status: 200, body: `<${root}><IsTruncated>${isTruncated}</IsTruncated>${positions}</${root}>` }
  }
}

/** A client that still reads then is let go, so that no test fills a disk. */
const maxEndlessBytes = 64 * mebibyte

/** A body without an end. `sent` counts the bytes of all of them. */
export function endless(): S3Answer {
  return {
    status: 200,
    body: async function* () {
      for (let bytes = 0; bytes < maxEndlessBytes; bytes += 65_536) {
        endless.sent += 65_536
        yield Buffer.alloc(65_536, ' ')
      }
    },
  }
}
endless.sent = 0

/** A body whose bytes come one in each turn, for ever. */
export function drip(bytes: number): S3Answer {
  return {
    status: 200,
    headers: { 'content-length': String(bytes) },
    body: async function* () {
      for (let count = 0; count < bytes; count++) {
        yield Buffer.alloc(1)
        for (let turns = 0; turns < 100; turns++) await turn()
      }
    },
  }
}
