/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'github-actions':
    'GitHub’s own OpenAPI description judges each request and the answers about secrets, also of GitHub Enterprise Server 3.19; octokit drives the fake and is compared with our requests; the sealed boxes are opened by tweetnacl and blakejs.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
}
