/** The product's worker as its own process, for drills that kill it: with an emulator of AWS. */
import { setTimeout as sleep } from "node:timers/promises";
import { ClusterDrivers, LocalDriver } from "@millrace/provisioner";
import { destination, pino } from "pino";
import { EMULATOR_GAPS } from "../../../packages/provisioner/test/emulator-gaps.ts";
import { awsDriver } from "../src/aws-driver.ts";
import { readEnv } from "../src/env.ts";
import { startWorker } from "../src/worker.ts";

const LEASE_MS = 3_000;
/** Shorter than in the product: an interrupted Terraform has nothing slow to wait for here. */
const GRACE_MS = 60_000;
const SMOKE_MS = 50;

const env = readEnv();
if (!env.aws) throw new Error("the drill sets MILLRACE_AWS_ROLE_ARN and the rest");
const { aws } = env;
const without = EMULATOR_GAPS.map((gap) => gap.without);

// Standard output says that it started, and is not read after that.
const logger = pino({ level: env.logLevel }, destination(2));

const worker = await startWorker({
  databaseUrl: env.databaseUrl,
  drivers: async (states, linkCredentials) =>
    new ClusterDrivers({
      local: new LocalDriver({ home: env.home, program: { command: ["none"], environment: {} } }),
      aws: await awsDriver(
        aws,
        env.home,
        { states, linkCredentials, logger },
        { without, graceMs: GRACE_MS },
      ),
    }),
  logger,
  leaseMs: LEASE_MS,
  smokeCheck: () => sleep(SMOKE_MS),
});

process.on("SIGTERM", async () => {
  await worker.stop({ stopBrokers: false });
  process.exit(0);
});
process.stdout.write("aws-worker-process: started\n");
