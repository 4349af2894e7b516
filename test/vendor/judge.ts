/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'bitbucket-pipelines':
    'the client `bitbucket`, made from Atlassian’s description, drives the fake and is compared with our requests; refusals follow Atlassian’s pages, read, not run.',
  circleci:
    'circle-client, a client of the community, drives the fake and is compared with our requests; refusals follow CircleCI’s pages and its Go library, read, not run.',
  'github-actions':
    'GitHub’s own OpenAPI description judges each request and the answers about secrets, also of GitHub Enterprise Server 3.19; octokit drives the fake and is compared with our requests; the sealed boxes are opened by tweetnacl and blakejs.',
  'gitlab-ci':
    'gitbeaker, a client of the community, drives the fake and is compared with our requests; scopes, masking and refusals follow GitLab’s published source and pages, read, not run.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
  'terraform-cloud':
    'the JSON:API schema (jsonapi-validator) judges each document in both directions; paths, attributes and refusals follow HashiCorp’s pages and go-tfe, read, not run: no client for variables was at hand.',
}
