/** A part of `npm run check:tools`, which runs many more subcommands: what takes seconds. */
import { describe, expect, it } from "vitest";
import { compareTools } from "./command-line/compare.ts";

const jars = process.env.MILLRACE_KAFKA_JARS ?? "";

describe.skipIf(jars === "")("Kafka's command-line tools", () => {
  it("say what they say of Apache Kafka", async () => {
    const { unknown } = await compareTools({ jars, parts: ["topics", "transactions", "acls"] });
    expect(unknown).toEqual([]);
  });
});
