/** Backups in a folder: whole or absent, readable by their owner alone, and nobody else's file is touched. */
import { chmod, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openTestTarget, someName, stagedFile, tempFolder } from '../../../../../test/backup-target.ts'
import { backupTime, newBackupName } from './name.ts'

async function openFolder() {
  const root = await tempFolder()
  const folder = join(root, 'backups')
  return { root, folder, target: await openTestTarget(folder) }
}

test('a stored file comes back as it was, with mode 0600 in a folder with mode 0700', async () => {
  const { root, folder, target } = await openFolder()
  const { path, content } = await stagedFile(root, 3 * 1024 * 1024 + 7)
  await chmod(path, 0o644)
  const progress: [number, number][] = []
  await target.put(someName, path, { onProgress: (done, total) => progress.push([done, total]) })
  expect(progress.at(-1)).toEqual([content.length, content.length])
  const [file, parent] = [await stat(join(folder, someName)), await stat(folder)]
  expect([file.mode & 0o777, parent.mode & 0o777]).toEqual([0o600, 0o700])
  expect(await target.list()).toEqual([{ name: someName, bytes: content.length, at: Date.UTC(2026, 10, 17, 18, 32) }])
  await target.download(someName, join(root, 'back'), content.length)
  expect((await readFile(join(root, 'back'))).equals(content)).toBe(true)
  expect((await stat(join(root, 'back'))).mode & 0o777).toBe(0o600)
  await target.remove(someName)
  await target.remove(someName)
  expect(await readdir(folder)).toEqual([])
})

test('a name says when a backup was begun, and is never used twice', () => {
  const at = Date.UTC(2026, 2, 29, 1, 2, 3)
  expect(newBackupName(at)).toMatch(/^coffer-20260329T010203Z-[0-9a-f]{6}\.backup$/)
  expect(backupTime(newBackupName(at))).toBe(at)
  expect(newBackupName(at)).not.toBe(newBackupName(at))
  for (const name of ['coffer-20269929T010203Z-abcdef.backup', 'coffer.db', `../${someName}`, `${someName}x`]) {
    expect(backupTime(name), name).toBeUndefined()
  }
})

test('only backups and their markers are listed, and only plain files', async () => {
  const { root, folder, target } = await openFolder()
  await mkdir(folder)
  const foreign = ['coffer.db', 'notes.txt', 'coffer-20261117T183200Z-abc123.backup.old', `${someName}.part`]
  for (const name of foreign) await writeFile(join(folder, name), 'x')
  await mkdir(join(folder, 'coffer-20261117T183200Z-aaaaaa.backup'))
  await symlink(join(root, 'elsewhere'), join(folder, 'coffer-20261117T183200Z-bbbbbb.backup'))
  await writeFile(join(folder, `${someName}.verified`), '{}')
  expect((await target.list()).map(({ name }) => name)).toEqual([`${someName}.verified`])
})

test('a copy that fails is removed, and one that a kill has left is no backup, and is replaced or removed later', async () => {
  const { root, folder, target } = await openFolder()
  const { path, content } = await stagedFile(root, 2 * 1024 * 1024)
  const stop = new AbortController()
  await expect(target.put(someName, path, { signal: stop.signal, onProgress: () => stop.abort() })).rejects.toThrow()
  expect(await readdir(folder)).toEqual([])

  await writeFile(join(folder, `${someName}.part`), 'half')
  expect(await target.list()).toEqual([])
  const hourAgo = Date.now() - 3_600_000
  await target.dropUnfinished(hourAgo, new Set())
  expect(await readdir(folder)).toEqual([`${someName}.part`])
  await target.put(someName, path)
  expect(await readdir(folder)).toEqual([someName])
  expect((await readFile(join(folder, someName))).equals(content)).toBe(true)

  for (const name of [`${someName}.part`, 'other.part']) {
    await writeFile(join(folder, name), 'x')
    await utimes(join(folder, name), 1, 1)
  }
  await target.dropUnfinished(hourAgo, new Set([someName]))
  expect((await readdir(folder)).length).toBe(3)
  await target.dropUnfinished(hourAgo, new Set())
  expect((await readdir(folder)).toSorted()).toEqual([someName, 'other.part'])
})

test('problems of the folder are one sentence', async () => {
  const root = await tempFolder()
  const { path } = await stagedFile(root, 10)
  const lost = await openTestTarget(join(root, 'not-mounted', 'backups'))
  await expect(lost.put(someName, path)).rejects.toThrow(/does not exist: check that its disk is mounted\.$/)
  expect(await lost.list()).toEqual([])
  await writeFile(join(root, 'file'), '')
  const noFolder = await openTestTarget(join(root, 'file'))
  await expect(noFolder.put(someName, path)).rejects.toThrow(/cannot be written to \(ENOTDIR\)/)
  await expect(noFolder.list()).rejects.toThrow(/cannot be read \(ENOTDIR\)/)
  await expect(openTestTarget('ftp://example.com/x')).rejects.toThrow(/must be a folder or s3:/)
})
