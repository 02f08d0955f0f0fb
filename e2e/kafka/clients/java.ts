/** Apache Kafka's own console tools. */
import { createReadStream } from "node:fs";
import { type Client, type RunOptions, runLines } from "./client.ts";

const IDLE_MS_MAX = 30_000;
/** Tools end before the C2 compiler pays off. */
const MACHINE = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/** Runs one of Kafka's tools by its class name; one that is not among the others by its whole name. */
export function kafkaTool(tool: string, args: string[], options: RunOptions = {}): Promise<void> {
  return runLines("java", javaArguments(tool, args), options);
}

/** What `java` is told to run one of Kafka's tools. */
export function javaArguments(tool: string, args: string[], machine = MACHINE): string[] {
  const jars = process.env.MILLRACE_KAFKA_JARS ?? "";
  const name = tool.startsWith("kafka.") ? tool : `org.apache.kafka.tools.${tool}`;
  return [...machine, "-cp", `${jars}/*`, name, ...args];
}

export const java: Client = {
  name: "Java console tools",

  async produce(bootstrap, topic, file, codec) {
    await kafkaTool(
      "ConsoleProducer",
      [
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        "--batch-size",
        "65536",
        "--request-required-acks",
        "all",
      ],
      { input: createReadStream(file) },
    );
  },

  async consume(bootstrap, topic, count, onSeen) {
    await kafkaTool(
      "consumer.ConsoleConsumer",
      [
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        String(count),
        "--timeout-ms",
        String(IDLE_MS_MAX),
        "--property",
        "print.partition=true",
      ],
      {
        onLine: (line) => {
          const [, partition, value] = /^Partition:(\d+)\t(.*)$/s.exec(line) ?? [];
          if (value !== undefined) onSeen({ partition: Number(partition), value });
        },
      },
    );
  },
};
