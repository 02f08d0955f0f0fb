/**
 * Organizations' identity providers, by OpenID Connect: discovery, authorization code with PKCE, state and nonce. The
 * library `openid-client` verifies the answers; it is told to verify the ID token's signature as well, which it leaves to TLS
 * otherwise. Every request goes through `OutgoingRequests`, because tenants choose the addresses.
 */
import { DomainError, type SsoConnectionId, SsoRefused } from "@millrace/domain";
import * as oidc from "openid-client";
import { z } from "zod";
import {
  OutgoingRequestRefused,
  type OutgoingRequests,
  refusedRequestIn,
} from "./outgoing-requests.ts";
import { type VouchedPerson, vouchedPerson } from "./vouched-person.ts";

/** Providers whose metadata are kept in memory; of more, the oldest are asked again. */
const PROVIDERS_MAX = 1_000;
const METADATA_MS = 10 * 60_000;
/** A provider that fails is asked again after this: outsiders can ask for sign-ins. */
const FAILURE_MS = 10_000;
/** How far clocks may differ; the library's own tolerance for expiry. */
const CLOCK_SKEW_MS = 30_000;

export interface ProviderAccess {
  /** Where the provider sends browsers back to: of this connection alone. */
  readonly redirectUri: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** What the end of a sign-in is verified by. */
export interface SsoChallenge {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly begunAtMs: number;
  /** Whether the person has to prove once more who they are. */
  readonly proof: boolean;
}

const Endpoint = z.url({ protocol: /^https$/ }).max(2_048);
const Names = z.array(z.string().max(100)).max(50);
/** What is used of a provider's metadata, and nothing else: tenants choose how much they send. */
const Metadata = z.object({
  issuer: Endpoint,
  authorization_endpoint: Endpoint,
  token_endpoint: Endpoint,
  jwks_uri: Endpoint,
  userinfo_endpoint: Endpoint.exactOptional(),
  token_endpoint_auth_methods_supported: Names.exactOptional(),
  id_token_signing_alg_values_supported: Names.exactOptional(),
  authorization_response_iss_parameter_supported: z.boolean().exactOptional(),
});
type Metadata = z.infer<typeof Metadata>;

interface CachedMetadata {
  readonly metadata: Promise<Metadata>;
  expiresAtMs: number;
}

export class IdentityProviders {
  readonly #callbackUrl: string;
  readonly #requests: OutgoingRequests;
  readonly #cache = new Map<string, CachedMetadata>();

  constructor(callbackUrl: string, requests: OutgoingRequests) {
    this.#callbackUrl = callbackUrl;
    this.#requests = requests;
  }

  /**
   * Each connection has its own, so that no provider can pass off another one's answer as its own: the mix-up attack
   * (RFC 9700, 4.4.2.2).
   */
  redirectUriOf(connection: SsoConnectionId): string {
    return `${this.#callbackUrl}/${connection}`;
  }

  /** The issuer as the provider itself writes it, always read from there. Throws `sso_provider_refused`. */
  async check(issuer: string): Promise<string> {
    try {
      return (await this.#fetchMetadata(issuer)).issuer;
    } catch (cause) {
      const refused = refusedRequestIn(cause);
      const detail = refused ? ` ${refused.message}` : "";
      throw new DomainError(
        "sso_provider_refused",
        `There is no usable OpenID provider at ${issuer}.${detail}`,
        { remedy: "Check that <issuer>/.well-known/openid-configuration can be read.", cause },
      );
    }
  }

  /** Where to send the browser. Throws `SsoRefused`. */
  async begin(
    access: ProviderAccess,
    options: { readonly proof: boolean; readonly loginHint?: string | undefined },
  ): Promise<{ readonly location: string; readonly challenge: SsoChallenge }> {
    const config = await this.#configure(access);
    const { proof, loginHint } = options;
    const challenge: SsoChallenge = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      begunAtMs: Date.now(),
      proof,
    };
    const location = oidc.buildAuthorizationUrl(config, {
      redirect_uri: access.redirectUri,
      scope: "openid email profile",
      state: challenge.state,
      nonce: challenge.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(challenge.verifier),
      code_challenge_method: "S256",
      ...(proof && { prompt: "login", max_age: "0" }),
      ...(loginHint !== undefined && { login_hint: loginHint }),
    });
    // The console's page goes there: an address with another scheme could run a script in it.
    if (location.protocol !== "https:") throw untrusted();
    return { location: location.href, challenge };
  }

  /** Whom the provider vouches for, from the query that it sent the browser back with. Throws `SsoRefused`. */
  async finish(
    access: ProviderAccess,
    challenge: SsoChallenge,
    query: string,
  ): Promise<VouchedPerson> {
    const config = await this.#configure(access);
    const url = new URL(access.redirectUri);
    url.search = query;
    try {
      const tokens = await oidc.authorizationCodeGrant(config, url, {
        expectedState: challenge.state,
        expectedNonce: challenge.nonce,
        pkceCodeVerifier: challenge.verifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims === undefined) throw untrusted();
      if (challenge.proof) assertFreshProof(claims.auth_time, challenge.begunAtMs);
      const about =
        claims.email === undefined && config.serverMetadata().userinfo_endpoint !== undefined
          ? await oidc.fetchUserInfo(config, tokens.access_token, claims.sub)
          : claims;
      return vouchedPerson(access.issuer, claims, about);
    } catch (cause) {
      if (cause instanceof SsoRefused) throw cause;
      throw isCancelled(cause) ? cancelled() : untrusted(cause);
    }
  }

  async #configure({
    issuer,
    clientId,
    clientSecret,
  }: ProviderAccess): Promise<oidc.Configuration> {
    let metadata: Metadata;
    try {
      metadata = await this.#discover(issuer);
    } catch (cause) {
      throw new SsoRefused("provider", "The identity provider cannot be reached.", { cause });
    }
    // OpenID Connect Discovery 1.0, section 3: absent means `client_secret_basic`.
    const methods = metadata.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const authentication = methods.includes("client_secret_basic")
      ? oidc.ClientSecretBasic(clientSecret)
      : oidc.ClientSecretPost(clientSecret);
    const config = new oidc.Configuration(metadata, clientId, undefined, authentication);
    config[oidc.customFetch] = this.#fetch;
    oidc.enableNonRepudiationChecks(config);
    return config;
  }

  async #discover(issuer: string): Promise<Metadata> {
    const known = this.#cache.get(issuer);
    if (known && known.expiresAtMs > Date.now()) return known.metadata;
    const oldest = this.#cache.keys().next();
    if (this.#cache.size >= PROVIDERS_MAX && !oldest.done) this.#cache.delete(oldest.value);
    const metadata = this.#fetchMetadata(issuer);
    const entry: CachedMetadata = { metadata, expiresAtMs: Date.now() + METADATA_MS };
    this.#cache.set(issuer, entry);
    metadata.catch(() => {
      entry.expiresAtMs = Date.now() + FAILURE_MS;
    });
    return metadata;
  }

  async #fetchMetadata(issuer: string): Promise<Metadata> {
    const url = new URL(issuer);
    const discovered = await oidc.discovery(url, "discovery", undefined, oidc.None(), {
      [oidc.customFetch]: this.#fetch,
    });
    const { data: metadata, error } = Metadata.safeParse(discovered.serverMetadata());
    if (!metadata) {
      const fields = [...new Set(error.issues.map(({ path }) => path[0]))].join(", ");
      throw new OutgoingRequestRefused(`Fields of its metadata are missing or invalid: ${fields}.`);
    }
    // The library makes exceptions for providers that share metadata between their own tenants: any of those could sign in.
    if (new URL(metadata.issuer).href !== url.href) {
      throw new OutgoingRequestRefused(`The metadata name another issuer: ${metadata.issuer}.`);
    }
    return metadata;
  }

  readonly #fetch: oidc.CustomFetch = async (url, { method, headers, body }) => {
    const form = body instanceof URLSearchParams ? body.toString() : undefined;
    return await this.#requests.send(url, { method, headers, body: form });
  };
}

function assertFreshProof(authTime: number | undefined, begunAtMs: number): void {
  if (authTime !== undefined && authTime * 1_000 >= begunAtMs - CLOCK_SKEW_MS) return;
  throw new SsoRefused(
    "provider",
    "The identity provider did not ask for a new proof of identity.",
  );
}

/** RFC 6749, 4.1.2.1: the person, or the provider in their place, said no. */
function isCancelled(error: unknown): boolean {
  return error instanceof oidc.AuthorizationResponseError && error.error === "access_denied";
}

function cancelled(): SsoRefused {
  return new SsoRefused("cancelled", "The sign-in was cancelled at the identity provider.");
}

function untrusted(cause?: unknown): SsoRefused {
  return new SsoRefused("provider", "The identity provider's answer cannot be trusted.", { cause });
}
