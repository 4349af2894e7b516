import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { searchQuery } from '../../api/secret-search.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { useSettled } from '../../parts/settled.ts'
import { Table } from '../../parts/table.tsx'

/** Names alone: the search never returns a value. */
export function FoundSecrets({ ws, q }: { readonly ws: string; readonly q: string }) {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    searchQuery(ws, useSettled(q)),
  )
  const found = data?.pages.flatMap(({ items }) => items)
  if (error) return <ErrorNote error={error} />
  if (!found) return <Skeleton rows={3} />
  if (found.length === 0) return <p className="text-soft">No secret that you can see has “{q}” in its name.</p>
  return (
    <>
      <Table label="Secrets found" columns={['Name', 'Project', 'Environments']}>
        {found.map(({ id, name, project, environments }) => (
          <tr key={id}>
            <th scope="row">
              <Link
                className="row-link font-mono"
                to="/$ws/$prj"
                params={{ ws, prj: project.slug }}
                search={{ key: name }}
              >
                {name}
              </Link>
            </th>
            <td>{project.name}</td>
            <td className="text-soft">{environments.map(({ name }) => name).join(', ')}</td>
          </tr>
        ))}
      </Table>
      {hasNextPage && (
        <Button className="self-start" isBusy={isFetchingNextPage} onClick={() => fetchNextPage()}>
          Load more
        </Button>
      )}
    </>
  )
}
