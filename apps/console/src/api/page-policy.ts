/** Header in which the nonce of a page reaches its layout. */
export const NONCE_HEADER = "x-nonce";

/** Where browsers report violations at once; the API logs them. `report-to` would hold them back for a minute. */
const VIOLATION_REPORTS = "/api/csp-reports";

/**
 * The policy of one page: only scripts with its nonce run, and those that they load themselves. Styles may
 * stand in elements, because the component library sets widths and colours there.
 */
export function pagePolicy(nonce: string, secure: boolean): string {
  return [
    "default-src 'self'",
    `script-src 'nonce-${nonce}' 'strict-dynamic'`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    ...(secure ? ["upgrade-insecure-requests"] : []),
    `report-uri ${VIOLATION_REPORTS}`,
  ].join("; ");
}
