/**
 * Commands and configuration that use the secrets of an environment, with the real names of this installation. They follow
 * docs/cli.md, docs/ci.md, docs/integration.md and docs/sdk.md.
 */

export type SecretPlace = {
  readonly url: string
  readonly workspace: string
  readonly project: string
  readonly environment: string
}

export type UseSnippet = { readonly title: string; readonly hint: string; readonly text: string }

/** Names of environments may hold spaces. */
const shellWord = (text: string) => (/^[\w./:-]+$/.test(text) ? text : `'${text}'`)
const yamlText = (text: string) =>
  /^[A-Za-z][\w-]*$/.test(text) && !/^(true|false|yes|no|on|off|null|[yn])$/i.test(text) ? text : JSON.stringify(text)

const packageOf = (name: string, version: string) => `coffer-${name}-${version}.tgz`

export const installCommands = (version: string) => `npm install && npm run build
npm pack ./dist/cli
npm install -g ./${packageOf('cli', version)}`

export const cliCommands = ({ url, workspace, project, environment }: SecretPlace) => `coffer login ${url}
coffer init -w ${workspace} -p ${project} -e ${shellWord(environment)}
coffer run -- npm start`

const tokenCommand = ({ project, environment }: SecretPlace) =>
  `coffer token create ${project} --scope ${shellWord(`${project}/${environment}`)} --expires 60d --raw`

export const tokenFileCommand = (place: SecretPlace) => `${tokenCommand(place)} > coffer-token`

export const dockerfile = (version: string) => `FROM node:24-slim
COPY ${packageOf('cli', version)} /tmp/
RUN npm install -g /tmp/${packageOf('cli', version)} && rm /tmp/${packageOf('cli', version)}
WORKDIR /app
COPY . .
USER node
ENTRYPOINT ["coffer", "run", "--"]
CMD ["node", "server.js"]`

export const dockerCommand = ({ url, workspace, project, environment }: SecretPlace) => `docker run --rm \\
  -e COFFER_URL=${url} -e COFFER_WORKSPACE=${workspace} \\
  -e COFFER_PROJECT=${project} -e COFFER_ENVIRONMENT=${shellWord(environment)} \\
  -e COFFER_TOKEN_FILE=/run/secrets/coffer-token \\
  -v "$PWD/coffer-token:/run/secrets/coffer-token:ro" your-image`

export const workflow = ({ url, workspace, project, environment }: SecretPlace) => `permissions:
  contents: read
  id-token: write
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v6
      - uses: your-org/coffer/deploy/github-action@COMMIT
        with:
          url: ${url}
          workspace: ${yamlText(workspace)}
          project: ${yamlText(project)}
          environment: ${yamlText(environment)}
      - run: ./deploy.sh`

const exportCommands = ({ url, workspace, project, environment }: SecretPlace) => `export COFFER_URL=${url}
export COFFER_WORKSPACE=${workspace}
export COFFER_PROJECT=${project}
export COFFER_ENVIRONMENT=${shellWord(environment)}`

export const nodeSettings = (place: SecretPlace) => `${exportCommands(place)}
export COFFER_TOKEN=$(${tokenCommand(place)})`

export const nodeCode = `import { coffer } from '@coffer/sdk'

const secrets = await coffer()
const databaseUrl = secrets.get('DATABASE_URL')`

export const sdkCommands = (version: string) => `npm install && npm run build
npm pack ./dist/sdk
npm install ./${packageOf('sdk', version)}`

/** The shortest way for each place where an application runs. */
export function snippetsFor(place: SecretPlace): readonly UseSnippet[] {
  return [
    {
      title: 'On your machine',
      hint: 'Starts your application with the secrets as variables. Nothing is written to disk.',
      text: cliCommands(place),
    },
    {
      title: 'In Docker',
      hint: 'The image holds the command line; a token that reads this environment alone comes from the host.',
      text: `${tokenFileCommand(place)}\n${dockerCommand(place)}`,
    },
    {
      title: 'In CI',
      hint: 'Keep an API token as a protected variable of the pipeline, named COFFER_TOKEN.',
      text: `${exportCommands(place)}\ncoffer run --redact -- ./deploy.sh`,
    },
  ]
}
