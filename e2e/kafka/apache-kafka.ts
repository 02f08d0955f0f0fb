/** Apache Kafka itself, of the version whose tools the tests use: one broker with ACLs, to compare Millrace with. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin } from "@platformatic/kafka";
import { javaArguments, kafkaTool } from "./clients/java.ts";
import { freePort, PLAIN_USER } from "./protected-broker.ts";

const READY_SECONDS_MAX = 60;
const STOP_SECONDS_MAX = 20;
/** Any 16 bytes in base64; a cluster of one broker needs no other. */
const CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ";

/** Of both brokers. */
export const DELEGATION_TOKENS = "delegation.token.secret.key=sixteen bytes or more";

const LISTENERS = ["PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"] as const;
type Listener = (typeof LISTENERS)[number];

export class ApacheKafka {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-kafka-"));
  readonly #ports = new Map<Listener, number>();
  #process: ChildProcess | undefined;
  #log = "";

  bootstrap(listener: Listener): string {
    return `localhost:${this.#ports.get(listener)}`;
  }

  async create(): Promise<void> {
    for (const name of LISTENERS) this.#ports.set(name, await freePort());
    const properties = join(this.#folder, "server.properties");
    writeFileSync(properties, this.#settings(), { mode: 0o600 });
    await kafkaTool("kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", properties]);
    const child = spawn("java", javaArguments("kafka.Kafka", [properties]));
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#log = (this.#log + chunk).slice(-8_000);
      });
    }
    await once(child, "spawn");
    for (let tenths = 0; tenths < READY_SECONDS_MAX * 10; tenths++) {
      if (await this.#answers()) return;
      if (child.exitCode !== null) break;
      await sleep(100);
    }
    throw new Error(`Apache Kafka does not serve: ${this.#log}`);
  }

  /** Stops the broker, which keeps nothing, and removes its folder. */
  async remove(): Promise<void> {
    const child = this.#process;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_SECONDS_MAX * 1_000);
      const ended = once(child, "close");
      child.kill("SIGTERM");
      await ended;
      clearTimeout(timer);
    }
    rmSync(this.#folder, { recursive: true });
  }

  async #answers(): Promise<boolean> {
    const bootstrapBrokers = [this.bootstrap("PLAINTEXT")];
    const admin = new Admin({ clientId: "e2e", bootstrapBrokers, retries: 0 });
    const answered = await admin.metadata({ topics: [] }).then(
      ({ brokers }) => brokers.size > 0,
      () => false,
    );
    await admin.close();
    return answered;
  }

  #settings(): string {
    const { username, password } = PLAIN_USER;
    const login = "org.apache.kafka.common.security.plain.PlainLoginModule";
    const addresses = (names: readonly Listener[]) =>
      names.map((name) => `${name}://${this.bootstrap(name)}`).join(",");
    return [
      "process.roles=broker,controller",
      "node.id=1",
      `controller.quorum.voters=1@${this.bootstrap("CONTROLLER")}`,
      "controller.listener.names=CONTROLLER",
      "inter.broker.listener.name=PLAINTEXT",
      "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
      `listeners=${addresses(LISTENERS)}`,
      `advertised.listeners=${addresses(["PLAINTEXT", "SASL_PLAINTEXT"])}`,
      "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
      "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
      DELEGATION_TOKENS,
      `listener.name.sasl_plaintext.plain.sasl.jaas.config=${login} required user_${username}="${password}";`,
      "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
      "super.users=User:ANONYMOUS",
      "offsets.topic.replication.factor=1",
      "offsets.topic.num.partitions=1",
      "group.initial.rebalance.delay.ms=0",
      `log.dirs=${join(this.#folder, "data")}`,
      "",
    ].join("\n");
  }
}
