/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
  'vault-kv':
    'node-vault drives the fake and is compared with our requests; versions, soft deletion and CAS follow the source of the KV engine.',
  kubernetes:
    '@kubernetes/client-node drives the fake over TLS and is compared with our requests; that keys stay, are taken over and clash as in the fake was seen on a real API server.',
  vercel:
    '@vercel/sdk drives the fake and is compared with our requests, and its schemas judge every body; which records clash is taken from reports of users.',
  netlify:
    '@netlify/open-api judges every request and every answer of the fake; @netlify/api drives the fake and is compared with our requests.',
  'digitalocean-apps':
    '@digitalocean/dots drives the fake and is compared with our requests; how values are sealed is taken from the vendor’s words.',
}
