import { ApiError, type SecretVersion } from '@coffer/sdk'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type ProjectPlace, readVersion, restoreVersion, versionsQuery } from '../../../api/history.ts'
import { refreshProject } from '../../../api/refresh.ts'
import { useAction } from '../../../parts/action.ts'
import { Badge } from '../../../parts/badge.tsx'
import { Button } from '../../../parts/button.tsx'
import { ConfirmDialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { Skeleton } from '../../../parts/page.tsx'
import { useShortLived } from '../../../parts/short-lived.ts'
import { Time } from '../../../parts/time.tsx'
import { say } from '../../../parts/toast.tsx'
import { ValueDiff, ValueText } from '../../../parts/value-text.tsx'
import { nameToType } from '../../plan/production.ts'
import './version-list.css'

type VersionListProps = {
  readonly place: ProjectPlace
  readonly secretKey: string
  readonly environment: { readonly id: string; readonly name: string }
  readonly canWrite: boolean
  readonly onRestored?: () => void
}

type Shown =
  | { readonly kind: 'one'; readonly version: number; readonly value: string }
  | { readonly kind: 'two'; readonly older: number; readonly newer: number; readonly texts: readonly [string, string] }

export function VersionList({ place, secretKey, environment, canWrite, onRestored }: VersionListProps) {
  const query = useInfiniteQuery(versionsQuery(place, secretKey, environment.id))
  const [shown, setShown] = useShortLived<Shown>()
  const [picked, setPicked] = useState<readonly number[]>([])
  const [restored, setRestored] = useState<number>()

  const read = (version: number) => readVersion(place, secretKey, version, environment.id)
  const show = useAction(async (version: number) => {
    setShown({ kind: 'one', version, value: (await read(version)) ?? '' })
  })
  const compare = useAction(async (older: number, newer: number) => {
    const [before = '', after = ''] = await Promise.all([read(older), read(newer)])
    setShown({ kind: 'two', older, newer, texts: [before, after] })
  })

  if (query.error && !query.data) {
    const isMissing = query.error instanceof ApiError && query.error.status === 404
    if (isMissing) return <p className="text-soft">{`${secretKey} has never had a value in ${environment.name}.`}</p>
    return <ErrorNote error={query.error} />
  }
  if (!query.data) return <Skeleton rows={4} />

  const versions = query.data.pages.flatMap(({ items }) => items)
  const current = versions[0]?.version
  const [older, newer] = picked.toSorted((one, other) => one - other)

  async function restore(): Promise<void> {
    if (restored === undefined) return
    await restoreVersion(place, secretKey, restored, environment.id)
    setShown(undefined)
    await refreshProject(place.ws, place.prj)
    say(`${secretKey} in ${environment.name} has the value of version ${restored} again.`)
    onRestored?.()
  }

  return (
    <>
      <p className="hint">
        Tick two versions to compare them. Each value that you see is recorded, and hidden again after 30 seconds.
      </p>
      <ErrorNote error={show.error ?? compare.error} />
      {older !== undefined && newer !== undefined && (
        <Button isBusy={compare.isBusy} onClick={() => void compare.run(older, newer)}>
          {`Compare versions ${older} and ${newer}`}
        </Button>
      )}
      {shown?.kind === 'two' && (
        <div className="flex flex-col gap-1">
          <div className="flex items-center justify-between">
            <b>{`Version ${shown.older} → ${shown.newer}`}</b>
            <Button kind="quiet" onClick={() => setShown(undefined)}>
              Hide
            </Button>
          </div>
          <ValueDiff before={shown.texts[0]} after={shown.texts[1]} label="Difference" />
        </div>
      )}
      <ol className="versions" aria-label="Versions, newest first">
        {versions.map((version) => (
          <VersionLine
            key={version.version}
            version={version}
            isCurrent={version.version === current}
            value={shown?.kind === 'one' && shown.version === version.version ? shown.value : undefined}
            isPicked={picked.includes(version.version)}
            onPick={(isPicked) =>
              setPicked(
                isPicked ? [...picked.slice(-1), version.version] : picked.filter((one) => one !== version.version),
              )
            }
            onShow={() => void show.run(version.version)}
            onHide={() => setShown(undefined)}
            {...(canWrite && { onRestore: () => setRestored(version.version) })}
          />
        ))}
      </ol>
      {query.hasNextPage && (
        <Button isBusy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Load more
        </Button>
      )}
      <ConfirmDialog
        title={`Restore version ${restored ?? ''}`}
        isOpen={restored !== undefined}
        onClose={() => setRestored(undefined)}
        action="Restore"
        typed={nameToType([environment])}
        kind="primary"
        onConfirm={restore}
      >
        <p>
          {`${secretKey} in ${environment.name} gets the value of version ${restored ?? ''}. `}
          The value that it has now stays in the history.
        </p>
      </ConfirmDialog>
    </>
  )
}

type VersionLineProps = {
  readonly version: SecretVersion
  readonly isCurrent: boolean
  /** Present while it is shown. */
  readonly value: string | undefined
  readonly isPicked: boolean
  readonly onPick: (isPicked: boolean) => void
  readonly onShow: () => void
  readonly onHide: () => void
  readonly onRestore?: () => void
}

function VersionLine({ version, isCurrent, value, isPicked, onPick, onShow, onHide, onRestore }: VersionLineProps) {
  const { version: number, createdAt, createdBy, message, deleted } = version
  return (
    <li>
      <label className="version-pick">
        <input
          type="checkbox"
          aria-label={`Compare version ${number}`}
          checked={isPicked}
          disabled={deleted}
          onChange={(event) => onPick(event.target.checked)}
        />
      </label>
      <div className="version-text">
        <p className="flex flex-wrap items-center gap-2">
          <b>{`Version ${number}`}</b>
          {deleted ? <Badge tone="bad">deleted</Badge> : isCurrent && <Badge tone="good">current</Badge>}
        </p>
        <p className="text-soft">
          {createdBy} · <Time at={createdAt} />
        </p>
        {message && <p className="version-message">{message}</p>}
      </div>
      {!deleted && (
        <div className="version-actions">
          {value === undefined ? (
            <Button kind="quiet" onClick={onShow} aria-label={`Show version ${number}`}>
              Show
            </Button>
          ) : (
            <Button kind="quiet" onClick={onHide} aria-label={`Hide version ${number}`}>
              Hide
            </Button>
          )}
          {onRestore && !isCurrent && (
            <Button kind="quiet" onClick={onRestore} aria-label={`Restore version ${number}`}>
              Restore
            </Button>
          )}
        </div>
      )}
      {value !== undefined && (
        <div className="version-value">
          <ValueText value={value} label={`Value of version ${number}`} />
        </div>
      )}
    </li>
  )
}
