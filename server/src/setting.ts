/** Every setting with its default and meaning, as shown by --help and the docs. `config.ts` reads them. */
type Setting = { readonly name: string; readonly default: string; readonly meaning: string }

export const settings: readonly Setting[] = [
  {
    name: 'COFFER_CONFIG',
    default: 'none',
    meaning: 'a file of NAME=value lines; environment variables take precedence',
  },
  { name: 'COFFER_HOST', default: '127.0.0.1', meaning: 'address to listen on' },
  { name: 'COFFER_PORT', default: '8080', meaning: 'port to listen on; 0 picks a free one' },
  {
    name: 'COFFER_PUBLIC_URL',
    default: 'http://localhost at COFFER_PORT, https with TLS',
    meaning: 'the public address of the service',
  },
  {
    name: 'COFFER_TLS_CERT_FILE',
    default: 'none',
    meaning: 'certificate and its chain in PEM format: serve https on all ports; read again when it changes',
  },
  {
    name: 'COFFER_TLS_KEY_FILE',
    default: 'none',
    meaning: 'private key of COFFER_TLS_CERT_FILE in PEM format, not readable by every user',
  },
  {
    name: 'COFFER_PLAIN_HTTP',
    default: 'off',
    meaning: 'on: allow plain http on an address that is not loopback, without TLS and without a trusted proxy',
  },
  { name: 'COFFER_DATA_DIR', default: './data', meaning: 'folder of the embedded database and the master key' },
  { name: 'COFFER_DATABASE_URL', default: 'none', meaning: 'postgres://… instead of the embedded SQLite' },
  {
    name: 'COFFER_MASTER_KEY_FILE',
    default: 'master.key in the data folder',
    meaning: 'created at the first start, mode 0600',
  },
  { name: 'COFFER_MASTER_KEY', default: 'none', meaning: 'the master key itself: 32 bytes in base64 or hex' },
  { name: 'COFFER_MASTER_KEY_COMMAND', default: 'none', meaning: 'a command that prints the master key' },
  {
    name: 'COFFER_MASTER_KEY_KMS',
    default: 'none',
    meaning:
      'an AWS KMS key (ARN, or id with AWS_REGION) that wraps the master key; credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a custom endpoint in AWS_ENDPOINT_URL_KMS',
  },
  {
    name: 'COFFER_MASTER_KEY_GOOGLE_KMS',
    default: 'none',
    meaning:
      'projects/…/locations/…/keyRings/…/cryptoKeys/… of Google Cloud KMS; the key file of a service account in GOOGLE_APPLICATION_CREDENTIALS, else the identity of the machine',
  },
  {
    name: 'COFFER_MASTER_KEY_AZURE_KEY_VAULT',
    default: 'none',
    meaning:
      'https://VAULT.vault.azure.net/keys/KEY, an RSA key; application in AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, else the managed identity of the machine',
  },
  {
    name: 'COFFER_MASTER_KEY_TRANSIT',
    default: 'none',
    meaning: 'https://host/v1/MOUNT/keys/KEY of Vault or OpenBao; token in VAULT_TOKEN, namespace in VAULT_NAMESPACE',
  },
  {
    name: 'COFFER_MASTER_KEY_SHARES',
    default: 'off',
    meaning: 'on: the master key is split ("keys split"); the service starts sealed, and waits for "keys unseal"',
  },
  {
    name: 'COFFER_RATE_LIMIT',
    default: '200',
    meaning: 'requests per minute per client address; 0 disables the limit',
  },
  {
    name: 'COFFER_EXCHANGE_RATE_LIMIT',
    default: '10',
    meaning: 'exchanges per minute per token; 0 disables the limit',
  },
  {
    name: 'COFFER_SHARE_RATE_LIMIT',
    default: '60',
    meaning: 'look-ups of shares and invites per minute per client address; 0 disables the limit',
  },
  {
    name: 'COFFER_TOKEN_PREFIX',
    default: 'cof',
    meaning: 'first word of new API tokens, 2 to 12 of a-z and 0-9; tokens with any other word stay valid',
  },
  { name: 'COFFER_TRUSTED_PROXIES', default: 'none', meaning: 'CIDRs of proxies whose X-Forwarded-For is trusted' },
  { name: 'COFFER_REDIS_URL', default: 'none', meaning: 'redis://… to share the rate limits between nodes' },
  { name: 'COFFER_SYNC', default: 'on', meaning: 'off: this node pushes to no sync target' },
  { name: 'COFFER_SIGNUP', default: 'invite', meaning: 'who may register: invite or open' },
  {
    name: 'COFFER_SETUP_CODE',
    default: 'derived from the keys',
    meaning:
      'code that the first account needs; a derived one is printed at start and kept in setup-code of the data folder',
  },
  {
    name: 'COFFER_AUDIT_DAYS',
    default: 'keep all',
    meaning: 'days after which archived audit entries are removed; "audit archive" archives them',
  },
  {
    name: 'COFFER_DRAIN_SECONDS',
    default: '5 on PostgreSQL, 0 on SQLite',
    meaning:
      'how long a node that was told to stop goes on serving while `/readyz` returns 503, so that load balancers leave it',
  },
  {
    name: 'COFFER_BACKUP_TO',
    default: 'none',
    meaning:
      'folder or s3://bucket/prefix for scheduled backups; for S3, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a custom endpoint in AWS_ENDPOINT_URL_S3',
  },
  { name: 'COFFER_BACKUP_EVERY', default: '24h', meaning: 'time between two scheduled backups, such as 12h or 7d' },
  {
    name: 'COFFER_BACKUP_KEEP',
    default: '7 daily, 4 weekly, 12 monthly',
    meaning: 'which backups in COFFER_BACKUP_TO are kept; older ones are removed',
  },
  {
    name: 'COFFER_OUTBOUND_ALLOW',
    default: 'none',
    meaning: 'private CIDRs and hosts that may be reached, on any port and over http',
  },
  {
    name: 'COFFER_OUTBOUND_WORKSPACES',
    default: '* with invites, none with open sign-up',
    meaning: 'slugs or ids of the workspaces that may use COFFER_OUTBOUND_ALLOW; * means all',
  },
  {
    name: 'COFFER_SMTP_URL',
    default: 'none',
    meaning: 'smtp://user:password@host:port or smtps://… to mail invites and links that confirm an address',
  },
  { name: 'COFFER_MAIL_FROM', default: 'coffer@ and the host of the public URL', meaning: 'sender address of mails' },
  { name: 'COFFER_METRICS_TOKEN', default: 'none', meaning: 'bearer token that opens GET /metrics' },
  { name: 'COFFER_METRICS_PORT', default: 'none', meaning: 'a separate port for GET /metrics, without a token' },
  { name: 'COFFER_LOG_LEVEL', default: 'info', meaning: 'debug, info, warn, error or silent' },
]

/** Read by the command line and the SDK, which may run in the same shell as the service. */
export const clientVariables: ReadonlySet<string> = new Set([
  'COFFER_URL',
  'COFFER_WORKSPACE',
  'COFFER_PROJECT',
  'COFFER_ENVIRONMENT',
  'COFFER_TOKEN',
  'COFFER_TOKEN_FILE',
  'COFFER_ID_TOKEN',
  'COFFER_ID_TOKEN_FILE',
  'COFFER_AUDIENCE',
  'COFFER_OFFLINE',
  'COFFER_CACHE',
  'COFFER_REDACT',
  'COFFER_NO_INPUT',
])
