/** Codes of Node for a certificate that it refuses. */

/** The chain does not end at a trusted authority. */
export const untrustedCodes: ReadonlySet<string> = new Set([
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** For any reason. */
export const refusedCodes: ReadonlySet<string> = new Set([
  ...untrustedCodes,
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])
