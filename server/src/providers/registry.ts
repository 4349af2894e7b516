/** Every provider, one line each. */
import { bitbucketPipelines } from './bitbucket-pipelines.ts'
import { circleci } from './circleci.ts'
import { githubActions } from './github-actions.ts'
import { gitlabCi } from './gitlab-ci.ts'
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'
import { terraformCloud } from './terraform-cloud.ts'

export const providers: readonly Provider[] = [
  bitbucketPipelines,
  circleci,
  githubActions,
  gitlabCi,
  heroku,
  terraformCloud,
]

export const announced: readonly AnnouncedProvider[] = []
