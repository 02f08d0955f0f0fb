/**
 * `npm test` after the packages are there. Lanes run at once: the data plane compiles, the TypeScript
 * packages start small programs, the AWS stacks wait for an emulator. Integration tests follow as soon as
 * there is a broker; then everything together, end to end: Kafka clients with one product, Terraform and the browser
 * with another.
 *
 * Nothing waits for the AWS stacks, the kill drill or clippy: they run beside the end-to-end tests, which leave
 * processors idle.
 *
 * The last line is `N passed, N failed`, with `, N skipped` where a toolchain is absent.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { type AwsTools, awsToolPaths, findAwsTools } from "./aws-tools.ts";
import { run } from "./command.ts";
import { busyPercent, type ProcessorTimes, processorTimes } from "./processors.ts";
import { root } from "./settings.ts";
import { type Part, partsOf, slowest } from "./slowest.ts";
import { type Stack, startStack } from "./stack.ts";
import { type Tally, tallyOf } from "./tally.ts";
import { print } from "./terminal.ts";
import { findTools, type Tools } from "./tools.ts";
import { troubledTestsOf } from "./troubled-tests.ts";

/** One command of the suite. */
interface Stage {
  name: string;
  /** The tasks that turbo runs. */
  tasks: string[];
  env?: NodeJS.ProcessEnv;
  /** A gate counts as one check; a test stage counts what its runner counted. */
  gate?: true;
  secondsMax?: number;
  /** Tasks at a time. */
  concurrency?: number;
  /** As nice(1) takes it: whatever has less goes first. */
  niceness?: number;
}

type AllTools = Tools & AwsTools;

const STAGE_SECONDS_MAX = 1_500;
/** The lanes slow each other down, and Terraform's provider waits for minutes while clusters change. */
const LONG_SECONDS_MAX = 2_400;
/** Tasks of one stage at a time: more would only make each other's time limits too short. */
const CONCURRENCY = 2;
/** The longest of these wait for an emulator most of the time, and are to begin at once. */
const AWS_CONCURRENCY = 4;
/** On two processors a package's tests run one file at a time, and wait for processes and PostgreSQL. */
const INTEGRATION_CONCURRENCY = 4;
/** A plan with the AWS provider takes 10 s of CPU; with less garbage collection it takes 6.5 s. */
const TERRAFORM_GOGC = "400";
/** Parts named at the end, so that whoever makes the suite slower sees it. */
const SLOWEST_SHOWN = 10;
/** Failed and unstable tests of a stage named at the end, where they are found even if the rest of the output is cut. */
const FAILED_SHOWN = 40;
const PROVIDER = "@millrace/terraform-provider";
const artefacts = join(root, "test-results");
/** With debug assertions and checks for overflow, and compiled once for all tests. */
const brokerProgram = join(root, "dataplane/target/debug/millrace");
/** The client library's example. */
const clientConsole = join(root, "dataplane/target/debug/examples/console");
const total: Tally = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const unstable: string[] = [];
const skips: string[] = [];
const parts: Part[] = [];

const BROKER: Stage[] = [
  { name: "Rust format", tasks: ["@millrace/dataplane#format"], gate: true },
  { name: "crate dependencies", tasks: ["//#gate:crates"], gate: true },
  {
    name: "data plane build",
    tasks: ["@millrace/dataplane#build:tests"],
    gate: true,
    secondsMax: LONG_SECONDS_MAX,
  },
];
const RUST_TESTS: Stage = {
  name: "Rust tests",
  tasks: ["@millrace/dataplane#test:unit"],
  // Most tests wait for a disk, a process or a timer.
  env: { RUST_TEST_THREADS: String(2 * availableParallelism()) },
  secondsMax: LONG_SECONDS_MAX,
};
const CLIPPY: Stage = {
  name: "clippy",
  tasks: ["@millrace/dataplane#lint"],
  gate: true,
  secondsMax: LONG_SECONDS_MAX,
  niceness: 19,
};
const KILLS: Stage = {
  name: "kill -9 drill",
  tasks: ["@millrace/dataplane#drill:quick", "@millrace/dataplane#drill:recover:quick"],
  env: { MILLRACE_BROKER_BIN: brokerProgram },
  gate: true,
  concurrency: 1,
};
/** Before the lanes, since each of them would generate it for itself, over the other's files. */
const GENERATED: Stage = { name: "generated code", tasks: ["generate"], gate: true };
const PACKAGES: Stage[] = [
  { name: "format and lint", tasks: ["//#gate:biome"], gate: true },
  { name: "tidy", tasks: ["//#gate:tidy"], gate: true },
  { name: "migrations", tasks: ["//#gate:migrations"], gate: true },
  { name: "install scripts", tasks: ["//#gate:install-scripts"], gate: true },
  { name: "secrets", tasks: ["//#gate:secrets"], gate: true },
  { name: "types", tasks: ["//#gate:types"], gate: true },
  { name: "import rules", tasks: ["//#gate:arrows"], gate: true },
  { name: "dead code", tasks: ["//#gate:dead-code"], gate: true },
  { name: "unit tests", tasks: ["test:unit", "--filter=!@millrace/dataplane"] },
  { name: "console build", tasks: ["@millrace/console#build"], gate: true },
];

const startedAt = Date.now();
mkdirSync(artefacts, { recursive: true });
const tools = findAllTools();
const broker = lane(BROKER);
await stage(GENERATED);
const packages = lane(PACKAGES);
const aws = awsStacks();
await Promise.all([
  broker.then(() => stage(RUST_TESTS)),
  Promise.all([broker, packages]).then(integration),
]);
const products = await startProducts(await tools);
await Promise.all([aws, lane([KILLS, CLIPPY]), endToEnd(await tools, products)]);
finish();

async function integration(): Promise<void> {
  const env = toolPaths(await tools);
  await stage({
    name: "integration tests",
    tasks: ["test:integration"],
    env,
    concurrency: INTEGRATION_CONCURRENCY,
  });
}

async function awsStacks(): Promise<void> {
  await stage({
    name: "AWS stacks",
    tasks: ["test:aws"],
    env: { ...toolPaths(await tools), GOGC: TERRAFORM_GOGC },
    secondsMax: LONG_SECONDS_MAX,
    concurrency: AWS_CONCURRENCY,
  });
}

/** One after the other: two of the distribution's installers would stand in each other's way. */
async function findAllTools(): Promise<AllTools> {
  const clients = await findTools();
  const aws = await findAwsTools();
  return { ...clients, ...aws, absent: [...clients.absent, ...aws.absent] };
}

/** Runs stages one after the other; a failure does not hide the ones behind it. */
async function lane(stages: Stage[]): Promise<void> {
  for (const each of stages) await stage(each);
}

async function stage(each: Stage): Promise<void> {
  const { name, tasks, env, gate, secondsMax, concurrency, niceness } = each;
  const from = now();
  const { code, output } = await run(
    "nice",
    [
      "-n",
      String(niceness ?? 0),
      "turbo",
      "run",
      ...tasks,
      "--continue=dependencies-successful",
      `--concurrency=${concurrency ?? CONCURRENCY}`,
      "--output-logs=full",
      "--log-order=grouped",
    ],
    {
      cwd: root,
      env: {
        ...process.env,
        // Tests start hundreds of processes from the same sources.
        NODE_COMPILE_CACHE: join(root, "node_modules/.cache/node"),
        ...env,
        TURBO_TELEMETRY_DISABLED: "1",
        CHECKPOINT_DISABLE: "1",
      },
      title: name,
      secondsMax: secondsMax ?? STAGE_SECONDS_MAX,
    },
  );
  writeFileSync(join(artefacts, `${name.replaceAll(" ", "-")}.log`), output);
  const tally = gate
    ? { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 }
    : tallyOf(output);
  parts.push(...partsOf(name, output));
  // A runner that ends badly without a failed test (a crash, a time-out) is a failure all the same.
  if (code !== 0 && tally.failed === 0) tally.failed = 1;
  if (code === 0 && tally.passed + tally.skipped === 0) {
    tally.failed = 1;
    failures.push(`${name}: ran no test`);
  }
  for (const [, test] of output.matchAll(/test (\S+) \.\.\. ignored/g))
    skips.push(`${name}: ${test}`);
  count(name, tally, from);
  const troubled = troubledTestsOf(output);
  const named = (tests: string[]) => tests.slice(0, FAILED_SHOWN).map((test) => `${name}: ${test}`);
  unstable.push(...named(troubled.unstable));
  if (code !== 0) {
    failures.push(name, ...named(troubled.failed));
    console.error(excerpt(output));
  }
}

/** When something began. */
interface Moment {
  ms: number;
  processors: ProcessorTimes;
}

function now(): Moment {
  return { ms: Date.now(), processors: processorTimes() };
}

function count(name: string, tally: Tally, from: Moment): void {
  total.passed += tally.passed;
  total.failed += tally.failed;
  total.skipped += tally.skipped;
  const seconds = Math.round((Date.now() - from.ms) / 1_000);
  const busy = busyPercent(from.processors, processorTimes());
  parts.push({ name, seconds });
  const skipped = tally.skipped > 0 ? `, ${tally.skipped} skipped` : "";
  print(
    `${tally.failed > 0 ? "✗" : "✓"} ${name}: ${tally.passed} passed, ${tally.failed} failed${skipped} (${seconds} s, processors ${busy} % busy)`,
  );
}

/** Products that started. */
interface Products {
  kafka: Stack | undefined;
  console: Stack | undefined;
}

/** One after the other, and while little else runs: free ports are looked for some time before they are taken. */
async function startProducts({ absent }: AllTools): Promise<Products> {
  for (const reason of absent) {
    skips.push(reason);
    total.skipped += 1;
  }
  return { kafka: await product("kafka"), console: await product("console") };
}

/** Each product has stages of its own, one after the other: most stop and kill parts of it. */
async function endToEnd(found: AllTools, started: Products): Promise<void> {
  await Promise.all([
    withProduct("kafka", started.kafka, found, [
      { name: "real Kafka clients", tasks: ["@millrace/e2e#test:kafka"] },
    ]),
    withProduct("console", started.console, found, consoleStages(found)),
  ]);
}

function consoleStages({ chromium, terraform }: AllTools): Stage[] {
  const browser = { name: "console in a browser", tasks: ["@millrace/e2e#test:console"] };
  const provider = { name: "Terraform provider", tasks: [`${PROVIDER}#test:terraform`] };
  const real = { name: "real Terraform", tasks: ["@millrace/e2e#test:terraform"] };
  return [
    ...(terraform === undefined ? [] : [provider, real]),
    ...(chromium === undefined ? [] : [browser]),
  ];
}

/** The product as a user starts it. */
async function product(name: string): Promise<Stack | undefined> {
  const from = now();
  const title = `npm start, ${name}`;
  try {
    const stack = await startStack(name, brokerProgram);
    count(title, { passed: 1, failed: 0, skipped: 0 }, from);
    return stack;
  } catch (error) {
    failures.push(title);
    console.error(error instanceof Error ? error.message : error);
    count(title, { passed: 0, failed: 1, skipped: 0 }, from);
    return undefined;
  }
}

/** Runs the stages against the product, if it started, and stops it. */
async function withProduct(
  name: string,
  stack: Stack | undefined,
  found: AllTools,
  stages: Stage[],
): Promise<void> {
  if (stack === undefined) return;
  const env = { ...toolPaths(found), MILLRACE_E2E_HOME: stack.home };
  await lane(stages.map((each) => ({ ...each, env })));
  const from = now();
  const title = `stop leaves no process, ${name}`;
  const left = await stack.stop();
  if (left.length > 0) {
    failures.push(title);
    console.error(`still running after the stop:\n${left.join("\n")}`);
  }
  count(title, { passed: left.length ? 0 : 1, failed: left.length ? 1 : 0, skipped: 0 }, from);
}

function toolPaths(found: AllTools): NodeJS.ProcessEnv {
  return {
    ...awsToolPaths(found),
    MILLRACE_BROKER_BIN: brokerProgram,
    MILLRACE_CLIENT_CONSOLE: clientConsole,
    MILLRACE_CHROMIUM: found.chromium ?? "",
    MILLRACE_KCAT: found.kcat ?? "",
    MILLRACE_KAFKA_JARS: found.kafkaJars ?? "",
    MILLRACE_OPENSSL: found.openssl ?? "",
  };
}

/** The lines around failures, or the end where no line says so. */
function excerpt(output: string): string {
  const lines = output.split("\n");
  const marked = lines.flatMap((line, at) =>
    /FAIL|✗|×|panicked|^error|: error|Error:|failed/.test(line) ? [at] : [],
  );
  const shown = new Set(marked.slice(0, 60).flatMap((at) => [at - 1, at, at + 1, at + 2, at + 3]));
  const picked = lines.filter((_, at) => shown.has(at)).slice(0, 160);
  return [...picked, "…", ...lines.slice(-30)].join("\n");
}

function finish(): never {
  const minutes = ((Date.now() - startedAt) / 60_000).toFixed(1);
  console.log(`\n${minutes} minutes; logs and screenshots: test-results/`);
  console.log("slowest parts:");
  for (const { name, seconds } of slowest(parts, SLOWEST_SHOWN)) {
    console.log(`  ${seconds.toFixed(0).padStart(5)} s  ${name}`);
  }
  for (const reason of skips) console.log(`skipped: ${reason}`);
  for (const name of unstable) console.log(`passed on the second try only: ${name}`);
  for (const name of failures) console.log(`failed: ${name}`);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
  console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
  process.exit(total.failed > 0 ? 1 : 0);
}
