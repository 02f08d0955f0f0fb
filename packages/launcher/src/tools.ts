/** The foreign programs that the end-to-end tests drive: found, or installed, or named as absent. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import { root } from "./settings.ts";
import { print } from "./terminal.ts";

/** What was found. A tool that is absent has `undefined` and a reason in {@link Tools.absent}. */
export interface Tools {
  chromium: string | undefined;
  kcat: string | undefined;
  /** The folder with Apache Kafka's jars. */
  kafkaJars: string | undefined;
  openssl: string | undefined;
  /** One line for each tool that could not be had. */
  absent: string[];
}

const INSTALL_SECONDS_MAX = 600;
const CHROMIUM_NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** Kept beside the tests that use it. */
const KAFKA_POM = "e2e/kafka/tools/pom.xml";

/** Finds or installs all of them. */
export async function findTools(): Promise<Tools> {
  const absent: string[] = [];
  const chromium = await findChromium();
  if (chromium === undefined) {
    absent.push(
      "console tests: no Chromium, and neither the distribution nor Playwright provides one",
    );
  }
  const kcat = onPath("kcat") ?? ((await installPackage("kcat")) ? onPath("kcat") : undefined);
  if (kcat === undefined)
    absent.push("librdkafka tests: no kcat (Debian/Ubuntu: apt-get install kcat)");
  const kafkaJars = await fetchKafka();
  if (kafkaJars === undefined) {
    absent.push(
      "Java client tests: no JDK 17 with Maven (Debian/Ubuntu: apt-get install default-jdk maven)",
    );
  }
  const openssl =
    onPath("openssl") ?? ((await installPackage("openssl")) ? onPath("openssl") : undefined);
  if (openssl === undefined)
    absent.push(
      "tests of protected listeners: no openssl (Debian/Ubuntu: apt-get install openssl)",
    );
  return { chromium, kcat, kafkaJars, openssl, absent };
}

/** The path of a program, or nothing. */
export function onPath(name: string): string | undefined {
  try {
    return (
      execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim() || undefined
    );
  } catch {
    return undefined;
  }
}

async function findChromium(): Promise<string | undefined> {
  const system = () => CHROMIUM_NAMES.map(onPath).find((path) => path !== undefined);
  const found = system();
  if (found !== undefined) return found;
  if (await installPackage("chromium")) return system();
  print("fetching Playwright's own Chromium …");
  const { code } = await run("playwright", ["install", "chromium"], {
    cwd: join(root, "e2e"),
    title: "fetching Chromium",
    secondsMax: INSTALL_SECONDS_MAX,
  });
  // An empty path lets Playwright use the browser that it has just fetched.
  return code === 0 ? "" : undefined;
}

/** Installs a Debian package where this account may; says no where it may not. */
export async function installPackage(name: string): Promise<boolean> {
  if (onPath("apt-get") === undefined) return false;
  const asRoot = process.getuid?.() === 0;
  if (!asRoot && onPath("sudo") === undefined) return false;
  print(`installing ${name} from the distribution …`);
  const script = `apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ${name}`;
  const [command, args] = asRoot ? ["sh", ["-c", script]] : ["sudo", ["-n", "sh", "-c", script]];
  const { code } = await run(command as string, args as string[], {
    cwd: root,
    title: `installing ${name}`,
    secondsMax: INSTALL_SECONDS_MAX,
  });
  return code === 0;
}

/** Apache Kafka's command-line tools from Maven Central, kept under `.millrace-tools/`. */
async function fetchKafka(): Promise<string | undefined> {
  const pom = join(root, KAFKA_POM);
  if (onPath("java") === undefined || onPath("mvn") === undefined || !existsSync(pom))
    return undefined;
  const wanted = readFileSync(pom, "utf8");
  const version = /<kafka\.version>(.+?)</.exec(wanted)?.[1] ?? "unknown";
  const dir = join(root, ".millrace-tools", `kafka-${version}`);
  // What another pom has fetched may lack some.
  const complete = join(dir, "complete");
  if (existsSync(complete) && readFileSync(complete, "utf8") === wanted) return dir;
  print(`fetching Apache Kafka ${version}'s tools …`);
  const { code, output } = await run(
    "sh",
    [
      "-c",
      `mvn -q -B -f "${pom}" dependency:copy-dependencies -DoutputDirectory="${dir}" && cp "${pom}" "${complete}"`,
    ],
    { cwd: root, title: "fetching Kafka's tools", secondsMax: INSTALL_SECONDS_MAX },
  );
  if (code === 0) return dir;
  console.error(output.split("\n").slice(-10).join("\n"));
  return undefined;
}
