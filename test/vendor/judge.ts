/** Who vouches for the fake of each provider, and so for the provider; the docs say it, too. */
export const judges: Readonly<Record<string, string>> = {
  'aws-secrets-manager':
    '@aws-sdk/client-secrets-manager and client-sts drive the fake and are compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which those models lack, are checked by hand.',
  'aws-ssm':
    '@aws-sdk/client-ssm drives the fake and is compared with our requests; the models of aws-sdk v2 check every input, @smithy/signature-v4 every signature. Lengths and patterns, which those models lack, are checked by hand.',
  heroku: 'heroku-client drives the fake and is compared with our requests; no description of the API was at hand.',
}
