/**
 * A broker of the test's own with protected listeners, started from a properties file as somebody does who runs it by
 * hand. The control plane does not configure such listeners.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const program =
  process.env.MILLRACE_BROKER_BIN ??
  join(import.meta.dirname, "../../dataplane/target/release/millrace");
const openssl = process.env.MILLRACE_OPENSSL || "openssl";
const READY_SECONDS_MAX = 60;
const STOP_SECONDS_MAX = 30;

/** Listeners in the order of the file: the first is the one without protection. */
const LISTENERS = ["PLAINTEXT", "SASL_SSL", "SASL_PLAINTEXT"] as const;
export type Listener = (typeof LISTENERS)[number];

/** The only user of PLAIN, who stands in the file. The password has what the file's syntax must not trip over. */
export const PLAIN_USER = { username: "paula", password: "it's; a=secret, #1" };

export class ProtectedBroker {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-security-"));
  readonly #ports = new Map<Listener, number>();
  readonly #further: string[];
  #process: ChildProcess | undefined;
  #log = "";

  /** @param further lines of the properties file beside those of the listeners. */
  constructor(...further: string[]) {
    this.#further = further;
  }

  /** What clients trust. */
  get caFile(): string {
    return join(this.#folder, "ca.pem");
  }

  bootstrap(listener: Listener): string {
    return `localhost:${this.#ports.get(listener)}`;
  }

  async create(): Promise<void> {
    mkdirSync(join(this.#folder, "wal"));
    for (const listener of LISTENERS) this.#ports.set(listener, await freePort());
    createCertificate(this.#folder);
    // It holds a password.
    writeFileSync(this.#properties, this.#settings(), { mode: 0o600 });
    await this.start();
  }

  async start(): Promise<void> {
    this.#log = "";
    const child = spawn(program, ["broker", "--config", this.#properties]);
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#log = (this.#log + chunk).slice(-8_000);
      });
    }
    await once(child, "spawn");
    for (let tenths = 0; tenths < READY_SECONDS_MAX * 10; tenths++) {
      if (this.#log.includes("the broker is ready")) return;
      if (child.exitCode !== null) break;
      await sleep(100);
    }
    throw new Error(`the broker does not serve: ${this.#log}`);
  }

  /** As a crash does: nothing is written any more. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Stops the broker and removes its folder. @throws Error where it has to be killed. */
  async remove(): Promise<void> {
    const code = await this.#end("SIGTERM");
    rmSync(this.#folder, { recursive: true });
    if (code !== 0) throw new Error(`the broker ended with ${code}: ${this.#log}`);
  }

  get #properties(): string {
    return join(this.#folder, "server.properties");
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return child?.exitCode ?? null;
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_SECONDS_MAX * 1_000);
    const ended = once(child, "close");
    child.kill(signal);
    await ended;
    clearTimeout(timer);
    return child.exitCode;
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
      "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
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

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
