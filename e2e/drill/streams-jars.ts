/** The jars of Kafka Streams and Kafka Connect, with which drill:streams runs its programs. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const POM = join(import.meta.dirname, "streams.pom.xml");
const JARS = join(import.meta.dirname, "../../.millrace-tools/kafka-streams");

/** The folder of Kafka's jars, fetched by Maven unless they are there; `MILLRACE_STREAMS_JARS` names another. */
export function fetchJars(): string {
  const own = process.env.MILLRACE_STREAMS_JARS;
  if (own) return own;
  const complete = join(JARS, "pom.xml");
  if (existsSync(complete) && readFileSync(complete).equals(readFileSync(POM))) return JARS;
  console.log("fetching Kafka Streams and Kafka Connect …");
  // Jars of another version would be in the class path as well.
  rmSync(JARS, { recursive: true, force: true });
  mkdirSync(JARS, { recursive: true });
  const goal = ["dependency:copy-dependencies", `-DoutputDirectory=${JARS}`];
  execFileSync("mvn", ["-q", "-B", "-f", POM, ...goal], { stdio: "inherit" });
  copyFileSync(POM, complete);
  return JARS;
}
