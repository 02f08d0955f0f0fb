/**
 * A broker of the test's own with protected listeners, started from a properties file as somebody does who runs it by
 * hand. The control plane does not configure such listeners.
 */
import { execFileSync } from "node:child_process";
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BrokerProcess } from "./broker-process.ts";

const openssl = process.env.MILLRACE_OPENSSL || "openssl";

/** Listeners in the order of the file: the first is the one without protection. */
const LISTENERS = ["PLAINTEXT", "SASL_SSL", "SASL_PLAINTEXT", "SSL"] as const;
export type Listener = (typeof LISTENERS)[number];

/** The only user of PLAIN, who stands in the file. The password has what the file's syntax must not trip over. */
export const PLAIN_USER = { username: "paula", password: "it's; a=secret, #1" };

const KEY_ID = "e2e";
const AUDIENCE = "kafka";

export class ProtectedBroker {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-security-"));
  readonly #ports = new Map<Listener, number>();
  readonly #further: string[];
  readonly #issuer = generateKeyPairSync("ec", { namedCurve: "P-256" });
  readonly #process = new BrokerProcess();

  /** @param further lines of the properties file beside those of the listeners. */
  constructor(...further: string[]) {
    this.#further = further;
  }

  /** What clients trust. */
  get caFile(): string {
    return join(this.#folder, "ca.pem");
  }

  /** The certificate that the listener SSL asks for, with its key. */
  get identityFile(): string {
    return join(this.#folder, "client.pem");
  }

  /** A certificate of the same name that nobody trusts. */
  get foreignIdentityFile(): string {
    return join(this.#folder, "foreign.pem");
  }

  /** A token of the issuer whose keys the broker knows. */
  token(user: string, lifetimeSeconds = 300): string {
    return signToken(this.#issuer.privateKey, user, lifetimeSeconds);
  }

  bootstrap(listener: Listener): string {
    return `localhost:${this.#ports.get(listener)}`;
  }

  async create(): Promise<void> {
    mkdirSync(join(this.#folder, "wal"));
    for (const listener of LISTENERS) this.#ports.set(listener, await freePort());
    createCertificate(this.#folder);
    for (const name of ["client", "foreign"]) createClientCertificate(this.#folder, name);
    const key = { ...this.#issuer.publicKey.export({ format: "jwk" }), kid: KEY_ID, use: "sig" };
    writeFileSync(join(this.#folder, "keys.json"), JSON.stringify({ keys: [key] }));
    // It holds a password.
    writeFileSync(this.#properties, this.#settings(), { mode: 0o600 });
    await this.start();
  }

  async start(): Promise<void> {
    await this.#process.startMillrace(this.#properties);
  }

  /** As a crash does: nothing is written any more. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** Stops the broker and removes its folder. @throws Error where it has to be killed. */
  async remove(): Promise<void> {
    await this.#process.stop().finally(() => rmSync(this.#folder, { recursive: true }));
  }

  get #properties(): string {
    return join(this.#folder, "server.properties");
  }

  #settings(): string {
    const { username, password } = PLAIN_USER;
    const login = "org.apache.kafka.common.security.plain.PlainLoginModule";
    const addresses = (host: string) =>
      LISTENERS.map((name) => `${name}://${host}:${this.#ports.get(name)}`).join(",");
    return [
      `listeners=${addresses("127.0.0.1")}`,
      `advertised.listeners=${addresses("localhost")}`,
      "ssl.keystore.type=PEM",
      `ssl.keystore.location=${join(this.#folder, "server.pem")}`,
      "listener.name.ssl.ssl.client.auth=required",
      `listener.name.ssl.ssl.truststore.location=${join(this.#folder, "client-ca.pem")}`,
      "listener.name.ssl.ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1/L",
      "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
      `sasl.oauthbearer.jwks.endpoint.url=file://${join(this.#folder, "keys.json")}`,
      `sasl.oauthbearer.expected.audience=${AUDIENCE}`,
      // PLAIN would send passwords unencrypted.
      "listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-512",
      `listener.name.sasl_ssl.plain.sasl.jaas.config=${login} required user_${username}="${password}";`,
      "admin.listener=none",
      "group.initial.rebalance.delay.ms=0",
      `data.dir=${join(this.#folder, "data")}`,
      `s3.wal.path=0@file://${join(this.#folder, "wal/wal")}?capacity=67108864&iodepth=4`,
      `s3.data.buckets=0@file://${join(this.#folder, "objects")}`,
      "s3.wal.cache.size=32MiB",
      "s3.block.cache.size=16MiB",
      ...this.#further,
      "",
    ].join("\n");
  }
}

/** A certificate of localhost that is its own root: `ca.pem`, and with its key `server.pem`. */
function createCertificate(folder: string): void {
  const [key, certificate] = [join(folder, "key.pem"), join(folder, "ca.pem")];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const asked = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...subject];
  execFileSync(openssl, [...asked, "-keyout", key, "-out", certificate], { stdio: "ignore" });
  const both = Buffer.concat([readFileSync(certificate), readFileSync(key)]);
  writeFileSync(join(folder, "server.pem"), both, { mode: 0o600 });
}

/** An authority, `<name>-ca.pem`, and a client's certificate of it with its key, `<name>.pem`. */
function createClientCertificate(folder: string, name: string): void {
  const file = (suffix: string) => join(folder, `${name}${suffix}`);
  const run = (...args: string[]) => execFileSync(openssl, args, { stdio: "ignore" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const authority = ["-keyout", file("-ca.key"), "-out", file("-ca.pem")];
  run("req", "-x509", ...key, "-days", "2", "-subj", "/CN=Clients", ...authority);
  run(
    "req",
    ...key,
    "-subj",
    "/O=Millrace/CN=Carol",
    "-keyout",
    file(".key"),
    "-out",
    file(".csr"),
  );
  const issuer = ["-CA", file("-ca.pem"), "-CAkey", file("-ca.key"), "-CAcreateserial"];
  writeFileSync(file(".ext"), "extendedKeyUsage=clientAuth\n");
  const issued = ["-days", "2", "-extfile", file(".ext"), "-out", file(".crt")];
  run("x509", "-req", "-in", file(".csr"), ...issuer, ...issued);
  const both = Buffer.concat([readFileSync(file(".crt")), readFileSync(file(".key"))]);
  writeFileSync(file(".pem"), both, { mode: 0o600 });
}

function signToken(key: KeyObject, user: string, lifetimeSeconds: number): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const now = Math.floor(Date.now() / 1_000);
  const claims = { sub: user, aud: AUDIENCE, iat: now, exp: now + lifetimeSeconds };
  const message = `${encode({ alg: "ES256", kid: KEY_ID })}.${encode(claims)}`;
  const signature = sign("sha256", Buffer.from(message), { key, dsaEncoding: "ieee-p1363" });
  return `${message}.${signature.toString("base64url")}`;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
