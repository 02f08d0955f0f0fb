/** Apache Kafka itself, of the version whose tools the tests use: one broker, to compare Millrace with. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Admin } from "@platformatic/kafka";
import { BrokerProcess } from "./broker-process.ts";
import { javaArguments, kafkaTool } from "./clients/java.ts";
import { freePort, PLAIN_USER } from "./protected-broker.ts";

/** Any 16 bytes in base64; a cluster of one broker needs no other. */
const CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ";

/** Of both brokers. */
export const DELEGATION_TOKENS = "delegation.token.secret.key=sixteen bytes or more";

const AUTHORIZER = [
  "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
  "super.users=User:ANONYMOUS",
];

const LISTENERS = ["PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"] as const;
type Listener = (typeof LISTENERS)[number];

export class ApacheKafka {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-kafka-"));
  readonly #ports = new Map<Listener, number>();
  readonly #authorizer: boolean;
  readonly #further: string[];
  readonly #machine: string[] | undefined;
  readonly #process = new BrokerProcess();

  /**
   * @param options.further lines of the properties file, after those that stand here.
   * @param options.machine options of the JVM instead of those of the tools.
   */
  constructor(options: { authorizer?: boolean; further?: string[]; machine?: string[] } = {}) {
    const { authorizer = true, further = [], machine } = options;
    this.#authorizer = authorizer;
    this.#further = further;
    this.#machine = machine;
  }

  bootstrap(listener: Listener): string {
    return `localhost:${this.#ports.get(listener)}`;
  }

  async create(): Promise<void> {
    for (const name of LISTENERS) this.#ports.set(name, await freePort());
    const properties = this.#properties;
    writeFileSync(properties, this.#settings(), { mode: 0o600 });
    await kafkaTool("kafka.tools.StorageTool", [
      "format",
      "-t",
      CLUSTER_ID,
      "-c",
      properties,
      "--feature",
      "share.version=1",
    ]);
    await this.start();
  }

  async start(): Promise<void> {
    const args = javaArguments("kafka.Kafka", [this.#properties], this.#machine);
    await this.#process.start("java", args, () => this.#answers());
  }

  /** Stops the broker, which keeps nothing, and removes its folder. */
  async remove(): Promise<void> {
    await this.#process.end("SIGTERM");
    rmSync(this.#folder, { recursive: true });
  }

  /** As a crash does: nothing is written any more. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  get #properties(): string {
    return join(this.#folder, "server.properties");
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
      ...(this.#authorizer ? AUTHORIZER : []),
      "offsets.topic.replication.factor=1",
      "offsets.topic.num.partitions=1",
      "group.initial.rebalance.delay.ms=0",
      "transaction.state.log.replication.factor=1",
      "transaction.state.log.min.isr=1",
      "transaction.state.log.num.partitions=1",
      "share.coordinator.state.topic.replication.factor=1",
      "share.coordinator.state.topic.min.isr=1",
      "share.coordinator.state.topic.num.partitions=1",
      `log.dirs=${join(this.#folder, "data")}`,
      ...this.#further,
      "",
    ].join("\n");
  }
}
