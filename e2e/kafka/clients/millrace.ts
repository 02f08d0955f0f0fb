/** The project's own client library, through the console program among its examples. */
import { execFileSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { type Client, runLines } from "./client.ts";

let program = process.env.MILLRACE_CLIENT_CONSOLE;

/** The console program: the one that is named, or one that is built here, which takes minutes at first. */
export function consoleProgram(): string {
  program ??= build();
  return program;
}

function build(): string {
  const messages = execFileSync(
    "cargo",
    [
      // Of the whole workspace, so that it shares what the tests have compiled.
      ...["build", "--locked", "--workspace", "--example", "console"],
      "--message-format=json",
    ],
    {
      cwd: join(import.meta.dirname, "../../../dataplane"),
      encoding: "utf8",
      maxBuffer: 64 << 20,
      stdio: ["ignore", "pipe", "ignore"],
    },
  );
  const artifacts = messages.split("\n").filter((line) => line.includes('"executable"'));
  const built = artifacts.map((line) => JSON.parse(line)).find((one) => one.executable);
  if (built === undefined) throw new Error("cargo built no console program");
  return built.executable;
}

export const millrace: Client = {
  name: "millrace-client",

  async produce(bootstrap, topic, file, codec) {
    await runLines(consoleProgram(), ["produce", bootstrap, topic, codec], {
      input: createReadStream(file),
    });
  },

  async consume(bootstrap, topic, count, onSeen) {
    await runLines(consoleProgram(), ["consume", bootstrap, topic, "--records", String(count)], {
      onLine: (line) => {
        const [partition] = line.split(" ", 1);
        const value = line.slice(line.indexOf(" ", line.indexOf(" ") + 1) + 1);
        onSeen({ partition: Number(partition), value });
      },
    });
  },
};
