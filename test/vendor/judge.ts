/** The clients, descriptions and sources that verify the fake of each provider, and so the provider. Part of the docs. */
export const judges: Readonly<Record<string, string>> = {
  'cloudflare-pages':
    'The cloudflare client drives the fake, and its requests are compared with ours. Public reports, not an API description, say that a patch drops the hash of the Wrangler configuration unless it contains the hash.',
  'cloudflare-workers':
    'The cloudflare client drives the fake, and its requests are compared with ours, for the list and the bulk call. No API description was available.',
  fly: 'A client generated from the vendor’s OpenAPI description (@distilled.cloud/fly-io) drives secrets and machines of the fake, and its requests are compared with ours. The vendor’s Go client shows that null deletes in the bulk call. The two GraphQL queries of the wizard are checked against a hand-written part of the vendor’s schema.',
  'aws-secrets-manager':
    '@aws-sdk/client-secrets-manager and client-sts drive the fake, and their requests are compared with ours. The models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. The same client also reads refusals as emulators send them: with 404, codes in the header, and nulls. Lengths and patterns, which these models lack, and the actions and tags of the printed policy are checked by hand.',
  'aws-ssm':
    '@aws-sdk/client-ssm drives the fake, and its requests are compared with ours. The models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which these models lack, and the actions and tags of the printed policy are checked by hand.',
  'azure-key-vault':
    '@azure/keyvault-secrets and @azure/identity drive the fake over TLS, and their requests are compared with ours. No API description is published as a package, so requests are checked by hand.',
  'gcp-secret-manager':
    '@google-cloud/secret-manager (over REST) and google-auth-library drive the fake, and their requests are compared with ours. Google’s protos check method, path and every field, jose the signature of the login, crc-32 the checksums.',
  heroku:
    'The client `heroku-client` drives the fake, and its requests are compared with ours. No API description was available.',
  railway:
    'Every GraphQL document and its variables are checked with graphql against a hand-written part of the vendor’s schema, based on the types of @crisog/railway-sdk and the vendor’s CLI. This SDK drives the variables of the fake, and its writes are compared with ours.',
  render:
    'The client `render-api`, which checks responses with zod, drives variables, environment groups and deploys of the fake, and its requests are compared with ours. The list of services follows the vendor’s documentation only.',
  webhook:
    'The fake checks signatures and times with standardwebhooks, the reference library of the scheme, and accepts the library’s own messages. Our signatures are compared with those of the library. The body is Coffer’s own format.',
  'bitbucket-pipelines':
    'The client `bitbucket`, generated from Atlassian’s API description, drives the fake, and its requests are compared with ours. Refusals follow Atlassian’s documentation, which was read, not run.',
  circleci:
    'The community client `circle-client` drives the fake, and its requests are compared with ours. Refusals follow CircleCI’s documentation and its Go library, which were read, not run.',
  'github-actions':
    'GitHub’s own OpenAPI description checks each request and the responses about secrets, also of GitHub Enterprise Server 3.19. Octokit drives the fake, and its requests are compared with ours. tweetnacl and blakejs open the sealed boxes.',
  'gitlab-ci':
    'The community client `gitbeaker` drives the fake, and its requests are compared with ours. Scopes, masking and refusals follow GitLab’s published source and documentation, which were read, not run.',
  'terraform-cloud':
    'The JSON:API schema (jsonapi-validator) checks each document in both directions. Paths, attributes and refusals follow HashiCorp’s documentation and go-tfe, which were read, not run: no client for variables was available.',
  'vault-kv':
    'The client `node-vault` drives the fake, and its requests are compared with ours. Versions, soft deletion and CAS follow the source of the KV engine.',
  kubernetes:
    '@kubernetes/client-node drives the fake over TLS, and its requests are compared with ours. A real API server confirmed that keys stay, are adopted and conflict as in the fake. The refusal of a forced apply at another version of the Secret was not checked there.',
  vercel:
    '@vercel/sdk drives the fake, and its requests are compared with ours; its schemas check every body. User reports show which records conflict.',
  netlify:
    '@netlify/open-api checks every request and every response of the fake. @netlify/api drives the fake, and its requests are compared with ours.',
  'digitalocean-apps':
    '@digitalocean/dots drives the fake, and its requests are compared with ours. The encryption of values follows the vendor’s documentation.',
}
