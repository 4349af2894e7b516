import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { authStateQuery } from '../../api/session.ts'
import { Snippet } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { SelectField } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/page.tsx'
import {
  cliCommands,
  dockerCommand,
  dockerfile,
  installCommands,
  nodeCode,
  nodeSettings,
  type SecretPlace,
  sdkCommands,
  tokenFileCommand,
  workflow,
} from './snippets.ts'

type UseInAppProps = {
  readonly ws: string
  readonly prj: string
  readonly environments: readonly { readonly id: string; readonly name: string }[]
  readonly isOpen: boolean
  readonly onClose: () => void
}

const ways = ['Command line', 'Docker', 'GitHub Actions', 'Node'] as const
type Way = (typeof ways)[number]

/** Commands and files with the address and names of this installation, to copy. */
export function UseInAppDialog({ ws, prj, environments, isOpen, onClose }: UseInAppProps) {
  const [way, setWay] = useState<Way>('Command line')
  const [environment = environments[0]?.name ?? '', setEnvironment] = useState<string>()
  const { data: state } = useQuery({ ...authStateQuery, enabled: isOpen })
  const place = { url: location.origin, workspace: ws, project: prj, environment }
  return (
    <Dialog title="Use in an application" kind="wide" isOpen={isOpen} onClose={onClose}>
      <div className="grid gap-3 sm:grid-cols-2">
        <SelectField
          label="Where it runs"
          value={way}
          onChange={(event) => setWay(ways.find((one) => one === event.target.value) ?? 'Command line')}
        >
          {ways.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </SelectField>
        <SelectField label="Environment" value={environment} onChange={(event) => setEnvironment(event.target.value)}>
          {environments.map(({ id, name }) => (
            <option key={id}>{name}</option>
          ))}
        </SelectField>
      </div>
      {state ? <Steps way={way} place={place} version={state.version} /> : <Skeleton />}
    </Dialog>
  )
}

type StepsProps = {
  readonly way: Way
  readonly place: SecretPlace
  /** Version of this installation; the packages of command line and SDK have the same one. */
  readonly version: string
}

function Steps({ way, place, version }: StepsProps) {
  const install = (
    <Step text="Once, in a checkout of Coffer: make and install the command line. It needs Node 24.">
      <Snippet label="Install the command line" text={installCommands(version)} />
    </Step>
  )
  const { workspace: ws } = place
  switch (way) {
    case 'Command line':
      return (
        <ol className="flex list-decimal flex-col gap-4 pl-5">
          {install}
          <Step text="In the folder of your application: sign in, choose this environment, and start the program with its secrets as variables.">
            <Snippet label="Run with secrets" text={cliCommands(place)} />
          </Step>
        </ol>
      )
    case 'Docker':
      return (
        <ol className="flex list-decimal flex-col gap-4 pl-5">
          {install}
          <Step text="Make a token that reads this environment alone. Keep the file out of the image and of git.">
            <Snippet label="Make a token" text={tokenFileCommand(place)} />
          </Step>
          <Step text="Put the command line into the image. The package from the first step lies beside the Dockerfile.">
            <Snippet label="Dockerfile" text={dockerfile(version)} />
          </Step>
          <Step text="Start it. The container fetches its secrets at each start.">
            <Snippet label="Start the container" text={dockerCommand(place)} />
          </Step>
        </ol>
      )
    case 'GitHub Actions':
      return (
        <ol className="flex list-decimal flex-col gap-4 pl-5">
          <Step
            text={
              <>
                Allow the repository as an{' '}
                <Link className="link" to="/$ws/-/access/identities" params={{ ws }}>
                  identity
                </Link>
                , with the audience <code>{place.url}</code>. No credential is stored in the pipeline.
              </>
            }
          />
          <Step text="Add the action to the workflow. It is in a fork or mirror of the Coffer repository: put its owner and a commit in place of your-org and COMMIT. Every secret is then a variable of the steps that follow.">
            <Snippet label="Workflow" text={workflow(place)} />
          </Step>
        </ol>
      )
    case 'Node':
      return (
        <ol className="flex list-decimal flex-col gap-4 pl-5">
          <Step text="Once, in a checkout of Coffer: make the package, then install it in your application.">
            <Snippet label="Install the SDK" text={sdkCommands(version)} />
          </Step>
          <Step text="Say where the secrets are. The token, made with the command line, reads this environment alone.">
            <Snippet label="Settings" text={nodeSettings(place)} />
          </Step>
          <Step text="Read them.">
            <Snippet label="Code" text={nodeCode} />
          </Step>
        </ol>
      )
  }
}

function Step({ text, children }: { readonly text: ReactNode; readonly children?: ReactNode }) {
  return (
    <li>
      <p className="mb-2">{text}</p>
      {children}
    </li>
  )
}
