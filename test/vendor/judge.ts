/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'cloudflare-pages':
    'The cloudflare client drives the fake and is compared with our requests; that a patch drops the hash of the Wrangler configuration unless it is sent along is read from public reports, not from a description.',
  'cloudflare-workers':
    'The cloudflare client drives the fake and is compared with our requests, list and bulk alike; no description of the API was at hand.',
  fly: 'A client generated from the vendor’s OpenAPI description (@distilled.cloud/fly-io) drives the secrets and machines of the fake and is compared with our requests; that null in the bulk call deletes is read from the vendor’s Go client; the wizard’s two GraphQL queries are checked against a hand-written part of the vendor’s schema.',
  'aws-secrets-manager':
    '@aws-sdk/client-secrets-manager and client-sts drive the fake and are compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Refusals with 404, codes in the header and nulls, as emulators answer, are read by the same client. Lengths and patterns, which those models lack, are checked by hand, and so are the actions and tags of the policy that the form prints.',
  'aws-ssm':
    '@aws-sdk/client-ssm drives the fake and is compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which those models lack, are checked by hand, and so are the actions and tags of the policy that the form prints.',
  'azure-key-vault':
    '@azure/keyvault-secrets and @azure/identity drive the fake over TLS and are compared with our requests; no description of the API is published as a package, so requests are checked by hand.',
  'gcp-secret-manager':
    '@google-cloud/secret-manager (over REST) and google-auth-library drive the fake and are compared with our requests; Google’s protos check method, path and every field, jose the signature of the login, crc-32 the checksums.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
  railway:
    'Every document and its variables are checked with graphql against a hand-written part of the vendor’s schema, as the types of @crisog/railway-sdk and the vendor’s CLI show it; that SDK drives the variables of the fake and is compared with our writes.',
  render:
    'render-api, which checks answers with zod, drives the variables of services and groups and the deploys of the fake and is compared with our requests; the list of services is by the vendor’s documentation alone.',
  webhook:
    'The fake checks signatures and times with standardwebhooks, the reference library of the scheme, whose own messages it takes; our signatures are compared with those of the library. The body is of our own making, and nobody else’s to judge.',
  'bitbucket-pipelines':
    'the client `bitbucket`, made from Atlassian’s description, drives the fake and is compared with our requests; refusals follow Atlassian’s pages, read, not run.',
  circleci:
    'circle-client, a client of the community, drives the fake and is compared with our requests; refusals follow CircleCI’s pages and its Go library, read, not run.',
  'github-actions':
    'GitHub’s own OpenAPI description judges each request and the answers about secrets, also of GitHub Enterprise Server 3.19; octokit drives the fake and is compared with our requests; the sealed boxes are opened by tweetnacl and blakejs.',
  'gitlab-ci':
    'gitbeaker, a client of the community, drives the fake and is compared with our requests; scopes, masking and refusals follow GitLab’s published source and pages, read, not run.',
  'terraform-cloud':
    'the JSON:API schema (jsonapi-validator) judges each document in both directions; paths, attributes and refusals follow HashiCorp’s pages and go-tfe, read, not run: no client for variables was at hand.',
  'vault-kv':
    'node-vault drives the fake and is compared with our requests; versions, soft deletion and CAS follow the source of the KV engine.',
  kubernetes:
    '@kubernetes/client-node drives the fake over TLS and is compared with our requests; that keys stay, are taken over and clash as in the fake was seen on a real API server, that a forced apply is refused at another version of the Secret was not.',
  vercel:
    '@vercel/sdk drives the fake and is compared with our requests, and its schemas judge every body; which records clash is taken from reports of users.',
  netlify:
    '@netlify/open-api judges every request and every answer of the fake; @netlify/api drives the fake and is compared with our requests.',
  'digitalocean-apps':
    '@digitalocean/dots drives the fake and is compared with our requests; how values are sealed is taken from the vendor’s words.',
}
