/**
 * An OpenID provider over TLS in this process: npm's `oidc-provider`, in which `signIn` is the person at the keyboard. `tamper`
 * changes what it says, as a wrong or hostile provider would.
 */

import { once } from "node:events";
import { createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { selfSigned } from "@millrace/testkit";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { Provider } from "oidc-provider";

export interface Claims {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly name?: string;
}

/** Changes an ID token's claims, or signs it with a key that the provider does not publish. */
export interface Tampering {
  readonly claims?: (claims: JWTPayload) => JWTPayload | Promise<JWTPayload>;
  readonly foreignKey?: boolean;
  /** Sent instead of the metadata. */
  readonly metadata?: (metadata: Record<string, unknown>) => Record<string, unknown>;
}

export const CLIENT_ID = "millrace";
export const CLIENT_SECRET = "canary-of-the-client-secret";

export class OidcProvider {
  readonly issuer: string;
  /** Trusts the provider's certificate. */
  readonly ca: string;
  /** Who is at the keyboard. */
  person: Claims = { sub: "nobody" };
  tamper: Tampering = {};
  /** Registered for the client. */
  readonly redirectUris = new Set<string>();
  /** Requests by path, such as `/token`. */
  readonly asked: string[] = [];
  readonly #server: Server;

  private constructor(server: Server, ca: string) {
    this.#server = server;
    this.ca = ca;
    this.issuer = `https://localhost:${(server.address() as AddressInfo).port}`;
  }

  static async start(tls = selfSigned()): Promise<OidcProvider> {
    const { certificate, key } = await tls;
    const server = createServer({ cert: certificate, key });
    server.listen(0, "localhost");
    await once(server, "listening");
    const made = new OidcProvider(server, certificate);
    await made.#serve();
    return made;
  }

  /** Follows the browser from the authorization request to the address that it is sent back to. */
  async signIn(location: string): Promise<URL> {
    const jar = new Map<string, string>();
    let address = new URL(location);
    for (let steps = 0; steps < 10; steps += 1) {
      const answer = await this.#get(address, jar);
      const next = answer.headers.location;
      if (next === undefined)
        throw new Error(`${address.pathname} answers ${answer.status}: ${answer.body}`);
      address = new URL(next, address);
      if (address.origin !== this.issuer) return address;
    }
    throw new Error("redirected without end");
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #serve(): Promise<void> {
    const [own, foreign] = await Promise.all([keyPair(), keyPair()]);
    const jwk = { ...(await exportJWK(own.privateKey)), kid: "own", alg: "ES256", use: "sig" };
    const provider = new Provider(this.issuer, {
      clients: [
        {
          client_id: CLIENT_ID,
          client_secret: CLIENT_SECRET,
          redirect_uris: ["https://registered.example/later"],
          id_token_signed_response_alg: "ES256",
        },
      ],
      jwks: { keys: [jwk] },
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
      conformIdTokenClaims: false,
      features: { devInteractions: { enabled: false } },
      cookies: { keys: ["a key of the tests"] },
      ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600 },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...this.person, sub }) }),
      async loadExistingGrant(ctx) {
        const grant = new ctx.oidc.provider.Grant({
          clientId: ctx.oidc.client?.clientId ?? "",
          accountId: ctx.oidc.session?.accountId ?? "",
        });
        grant.addOIDCScope("openid email profile");
        await grant.save();
        return grant;
      },
    });
    provider.Client.prototype.redirectUriAllowed = (uri) => this.redirectUris.has(uri);
    provider.use(async (ctx, next) => {
      this.asked.push(ctx.path);
      if (ctx.path.startsWith("/interaction/")) {
        const login = { accountId: this.person.sub, remember: false };
        await provider.interactionFinished(ctx.req, ctx.res, { login });
        ctx.respond = false;
        return;
      }
      await next();
      const answer = ctx.body as { id_token?: string };
      if (ctx.path === "/token" && answer.id_token !== undefined) {
        const { claims = (all) => all, foreignKey } = this.tamper;
        const sent = JSON.parse(
          Buffer.from(answer.id_token.split(".")[1] ?? "", "base64url").toString(),
        );
        answer.id_token = await new SignJWT(await claims(sent))
          .setProtectedHeader({ alg: "ES256", kid: "own" })
          .sign((foreignKey ? foreign : own).privateKey);
      }
      if (ctx.path.startsWith("/.well-known/") && this.tamper.metadata) {
        ctx.body = this.tamper.metadata(ctx.body as Record<string, unknown>);
      }
    });
    this.#server.on("request", provider.callback());
  }

  async #get(address: URL, jar: Map<string, string>) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const sent = request(address, { ca: this.ca, agent: false, headers: { cookie } });
    sent.end();
    const [answer] = await once(sent, "response");
    for (const line of answer.headers["set-cookie"] ?? []) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      jar.set(name, value);
    }
    let body = "";
    for await (const chunk of answer) body += chunk;
    return { status: answer.statusCode as number, headers: answer.headers, body };
  }
}

function keyPair() {
  return generateKeyPair("ES256", { extractable: true });
}
