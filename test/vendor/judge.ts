/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'aws-secrets-manager':
    '@aws-sdk/client-secrets-manager and client-sts drive the fake and are compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which those models lack, are checked by hand.',
  'aws-ssm':
    '@aws-sdk/client-ssm drives the fake and is compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which those models lack, are checked by hand.',
  'azure-key-vault':
    '@azure/keyvault-secrets and @azure/identity drive the fake over TLS and are compared with our requests; no description of the API is published as a package, so requests are checked by hand.',
  'gcp-secret-manager':
    '@google-cloud/secret-manager (over REST) and google-auth-library drive the fake and are compared with our requests; Google’s protos check method, path and every field, jose the signature of the login, crc-32 the checksums.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
}
