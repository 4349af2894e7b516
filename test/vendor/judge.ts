/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'cloudflare-workers':
    'The cloudflare client drives the fake and is compared with our requests, list and bulk alike; no description of the API was at hand.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
}
