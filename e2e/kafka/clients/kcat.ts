/** librdkafka, through kcat. */
import { type Client, type Codec, runLines, type Seen } from "./client.ts";

const kcat = process.env.MILLRACE_KCAT || "kcat";

export const librdkafka: Client = {
  name: "librdkafka (kcat)",

  async produce(bootstrap, topic, file, codec: Codec) {
    const settings = ["acks=all", "enable.idempotence=true", "linger.ms=20"];
    await runLines(
      kcat,
      [
        "-P",
        "-b",
        bootstrap,
        "-t",
        topic,
        "-z",
        codec,
        "-l",
        ...settings.flatMap((one) => ["-X", one]),
        file,
      ],
      {},
    );
  },

  async consume(bootstrap, topic, count, onSeen: (seen: Seen) => void) {
    await runLines(
      kcat,
      [
        "-C",
        "-b",
        bootstrap,
        "-t",
        topic,
        "-o",
        "beginning",
        "-c",
        String(count),
        "-e",
        "-q",
        "-f",
        "%p %s\\n",
      ],
      {
        onLine: (line) => {
          const at = line.indexOf(" ");
          onSeen({ partition: Number(line.slice(0, at)), value: line.slice(at + 1) });
        },
      },
    );
  },
};
