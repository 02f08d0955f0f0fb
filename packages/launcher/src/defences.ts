/** Defences of SECURITY-CHECKS.md that can be removed by one edit, and the tests that must fail then. */

/** One defence. */
export interface Defence {
  /** The check's number in SECURITY-CHECKS.md; undefined for a defence that is none of the 47 checks. */
  readonly check: number | undefined;
  readonly name: string;
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly code: string;
  /** Replaces `code`; without the defence, the file still compiles. */
  readonly without: string;
  /** Runs the tests, in `folder`. */
  readonly test: readonly string[];
  readonly folder: string;
}

const INTEGRATION = ["--config", "../../packages/testkit/integration.config.ts", "--retry", "0"];
const unit = (file: string) => ["vitest", "run", "--dir", "src", "--testTimeout", "60000", file];
const integration = (file: string) => ["vitest", "run", ...INTEGRATION, `test/${file}`];
const rust = (crate: string, ...filter: string[]) => ["cargo", "test", "-p", crate, ...filter];

export const DEFENCES: readonly Defence[] = [
  {
    check: 7,
    name: "row-level security is forced on every tenant table",
    file: "migrations/control-plane/20261123024000_row_level_security/migration.sql",
    code: "ALTER TABLE %I FORCE ROW LEVEL SECURITY",
    without: "ALTER TABLE %I NO FORCE ROW LEVEL SECURITY",
    ...{ folder: "packages/db", test: integration("row-level-security.test.ts") },
  },
  {
    check: 10,
    name: "the tenant is set for one transaction, not for the connection",
    file: "packages/db/src/tenancy.ts",
    code: "{organizationId}, true)",
    without: "{organizationId}, false)",
    ...{ folder: "packages/db", test: integration("row-level-security.test.ts") },
  },
  {
    check: 12,
    name: "a sealed secret is bound to its row",
    file: "packages/auth/src/secret-seal.ts",
    code: "decipher.setAAD(Buffer.from(JSON.stringify(owner)));",
    without: "decipher.setAAD(Buffer.from(JSON.stringify(['org_1', 'sso_1'])));",
    ...{ folder: "packages/auth", test: unit("secret-seal.test.ts") },
  },
  {
    check: 15,
    name: "lists show only the beginning of an API key",
    file: "packages/auth/src/api-key-secret.ts",
    code: "const HINT_LENGTH = 10;",
    without: "const HINT_LENGTH = 40;",
    ...{ folder: "packages/auth", test: unit("api-key-secret.test.ts") },
  },
  {
    check: 19,
    name: "every role on AWS has a permissions boundary",
    file: "infra/src/policy/rules/permissions-boundary.ts",
    code: "isSet(values.permissions_boundary)",
    without: "isSet(values.name) || true",
    ...{ folder: "infra", test: unit("policy.test.ts") },
  },
  {
    check: 23,
    name: "session cookies are HttpOnly",
    file: "packages/auth/src/identity.ts",
    code: "{ secure, httpOnly: true,",
    without: "{ secure, httpOnly: false as true,",
    ...{ folder: "apps/api", test: integration("web-headers.test.ts") },
  },
  {
    check: 27,
    name: "browsers come back by https only",
    file: "apps/api/src/web-headers.ts",
    code: 'if (secure) c.header("Strict-Transport-Security", STRICT_TRANSPORT);',
    without: "",
    ...{ folder: "apps/api", test: integration("web-headers.test.ts") },
  },
  {
    check: 29,
    name: "sign-ins per address are limited",
    file: "packages/auth/src/identity.ts",
    code: "const SIGN_IN_PER_MINUTE = 20;",
    without: "const SIGN_IN_PER_MINUTE = 20_000;",
    ...{ folder: "apps/api", test: integration("429-rate-limited.test.ts") },
  },
  {
    check: 31,
    name: "the depth of JSON is limited",
    file: "apps/api/src/json-depth.ts",
    code: "if (depth > JSON_DEPTH_MAX) throw tooDeep();",
    without: "",
    ...{ folder: "apps/api", test: unit("json-depth.test.ts") },
  },
  {
    check: 32,
    name: "outgoing requests reach public addresses only",
    file: "packages/auth/src/outgoing-requests.ts",
    code: "if (isPublicAddress(address) || ",
    without: "if (isPublicAddress(address) || address !== '' || ",
    ...{ folder: "apps/api", test: integration("outgoing-requests.test.ts") },
  },
  {
    check: 33,
    name: "a permission is checked for every procedure",
    file: "packages/auth/src/authorize.ts",
    code: "if (mayDo(principal, permission)) return;",
    without: "if (mayDo(principal, permission) || principal.organizationId) return;",
    ...{ folder: "apps/api", test: integration("403-forbidden.test.ts") },
  },
  {
    check: 34,
    name: "a request that runs loses access when its key is revoked",
    file: "packages/router/src/access-watch.ts",
    code: "return this.#ended.signal;",
    without: "return new AbortController().signal;",
    ...{ folder: "packages/router", test: unit("access-watch.test.ts") },
  },
  {
    check: 37,
    name: "a changed audit event breaks the chain",
    file: "packages/db/src/audit-repository.ts",
    code: "AND hash = audit_event_hash(previous_hash, e) AS intact",
    without: "AS intact",
    ...{ folder: "packages/db", test: integration("audit-repository.test.ts") },
  },
  {
    check: 44,
    name: "no API key of ours is committed",
    file: "packages/launcher/src/secrets.ts",
    code: "\\bmrk_[A-Za-z0-9_-]{43}",
    without: "\\bmrk_[A-Za-z0-9_-]{44}",
    ...{ folder: "packages/launcher", test: unit("secrets.test.ts") },
  },
  {
    check: 45,
    name: "calls to brokers are limited",
    file: "packages/core/src/broker-calls.ts",
    code: "if (taken) return;",
    without: "if (taken || retryInSeconds >= 0) return;",
    ...{ folder: "packages/core", test: unit("broker-calls.test.ts") },
  },
  {
    check: undefined,
    name: "a DENY rule wins over an ALLOW rule",
    file: "dataplane/crates/millrace-security/src/acl/authorizer.rs",
    code: "!found.denied && (found.allowed",
    without: "(found.allowed",
    ...{ folder: "dataplane", test: rust("millrace-security", "--lib", "acl") },
  },
];
