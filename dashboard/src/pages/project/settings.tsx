import type { Project } from '@coffer/sdk'
import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { environmentsQuery, projectQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { EmptyState, Section } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { ProjectPage } from '../shell/project-page.tsx'
import { NameForm } from '../workspace/name-form.tsx'
import { Environments } from './environments.tsx'
import { MoveProject } from './move-project.tsx'

const route = getRouteApi('/signed-in/$ws/$prj/settings')

export function ProjectSettings() {
  const { ws, prj } = route.useParams()
  const { canAdminister, administers, administersWhole } = useProjectRights()
  const { data: project } = useSuspenseQuery(projectQuery(ws, prj))
  if (!canAdminister) {
    return (
      <ProjectPage>
        <EmptyState title="These settings are for admins">
          <p>Ask an admin of this project if something here should change.</p>
        </EmptyState>
      </ProjectPage>
    )
  }
  return (
    <ProjectPage>
      <Environments ws={ws} prj={prj} canCreate={administersWhole} administers={administers} />
      {administersWhole && (
        <>
          <ProjectName ws={ws} project={project} />
          <MoveProject ws={ws} project={project} />
          <DeleteProject ws={ws} project={project} />
        </>
      )}
    </ProjectPage>
  )
}

type OfProject = { readonly ws: string; readonly project: Project }

function ProjectName({ ws, project }: OfProject) {
  const navigate = useNavigate()
  return (
    <Section title="Name and address">
      <NameForm
        key={project.id}
        label="Name"
        before={project}
        address={(slug) => `${location.host}/${ws}/${slug}`}
        warning="Every .coffer.json, pipeline, application and reference that names the old slug stops working until you change it there."
        save={async (named) => {
          const { slug } = await api.project.update({ ws, prj: project.id }, named)
          await queryClient.fetchQuery({ ...projectQuery(ws, slug), staleTime: 0 })
          await queryClient.invalidateQueries({ queryKey: ['projects', ws] })
          await navigate({ to: '/$ws/$prj/settings', params: { ws, prj: slug }, replace: true })
        }}
      />
    </Section>
  )
}

function DeleteProject({ ws, project }: OfProject) {
  const navigate = useNavigate()
  const { data: environments = [] } = useQuery(environmentsQuery(ws, project.slug))
  const [isOpen, setOpen] = useState(false)
  return (
    <Section
      title="Delete this project"
      hint="Its secrets with all versions, its syncs and its shares are destroyed."
      actions={
        <Button kind="danger" onClick={() => setOpen(true)}>
          Delete project
        </Button>
      }
    >
      <ConfirmDialog
        title={`Delete ${project.name}?`}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        typed={project.slug}
        action={`Delete ${project.name}`}
        onConfirm={async () => {
          await api.project.delete({ ws, prj: project.id })
          await navigate({ to: '/$ws', params: { ws } })
          queryClient.removeQueries({ queryKey: ['project', ws, project.slug] })
          await queryClient.invalidateQueries({ queryKey: ['projects', ws] })
        }}
      >
        <p>
          This destroys the secrets of {plural(environments.length, 'environment')} at once, with all versions.
          Everything that reads them stops working. Nobody can undo this.
        </p>
        <ul className="flex flex-col">
          {environments.map(({ id, name, totalSecrets }) => (
            <li key={id}>
              {name}: {plural(totalSecrets, 'secret')}
            </li>
          ))}
        </ul>
      </ConfirmDialog>
    </Section>
  )
}
