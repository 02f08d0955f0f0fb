import type { SingleSignOn } from "@millrace/contract";
import { ROLE_LEAST, type Role, SSO_DOMAIN_PATTERN } from "@millrace/domain";

export type Connection = NonNullable<SingleSignOn["connection"]>;

/** What the form holds. */
export interface SsoDraft {
  readonly issuer: string;
  readonly clientId: string;
  /** Empty: the stored one stays. */
  readonly clientSecret: string;
  readonly domains: string[];
  readonly defaultRole: Exclude<Role, "owner">;
  readonly required: boolean;
}

export function draftOf(connection: Connection | null): SsoDraft {
  const role = connection?.default_role ?? ROLE_LEAST;
  return {
    issuer: connection?.issuer ?? "",
    clientId: connection?.client_id ?? "",
    clientSecret: "",
    domains: connection?.domains ?? [],
    defaultRole: role === "owner" ? ROLE_LEAST : role,
    required: connection?.required ?? false,
  };
}

export function requestOf(draft: SsoDraft) {
  const { issuer, clientId, clientSecret, domains, defaultRole, required } = draft;
  return {
    ...{ issuer: issuer.trim(), client_id: clientId.trim(), domains, required },
    default_role: defaultRole,
    ...(clientSecret !== "" && { client_secret: clientSecret }),
  };
}

/** What is wrong with the draft, by field; a secret is stored for the connection's issuer and client alone. */
export function problemsOf(draft: SsoDraft, connection: Connection | null) {
  const needsSecret =
    connection?.issuer !== draft.issuer.trim() || connection.client_id !== draft.clientId.trim();
  const wrong = draft.domains.find((domain) => !SSO_DOMAIN_PATTERN.test(domain.toLowerCase()));
  return {
    issuer: draft.issuer.trim().startsWith("https://") ? null : "Enter an address with https://",
    clientId: draft.clientId.trim() === "" ? "Enter the client ID" : null,
    clientSecret:
      needsSecret && draft.clientSecret === "" ? "Enter the client secret of this client" : null,
    domains:
      wrong !== undefined
        ? `${wrong} is not a domain such as example.com`
        : draft.domains.length === 0
          ? "Enter at least one domain"
          : null,
  };
}
