/**
 * A worker process for tests that kill it. It differs from the product's by a fake broker program, its own ports,
 * a short lease, and a smoke check that takes a while and always passes. With CRASH_AT=<effect>:<before|after> it
 * kills itself there, like `kill -9`: at `after` the effect has happened and is not recorded yet.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerError } from "@millrace/broker-admin";
import { ClusterDrivers, LocalDriver } from "@millrace/provisioner";
import { pino } from "pino";
import { startWorker } from "../src/worker.ts";

const FAKE_MILLRACE = join(
  import.meta.dirname,
  "../../../packages/provisioner/test/fake-millrace.mjs",
);
/**
 * Long enough to be killed within, and, on a busy machine, for the wait to begin before the broker
 * that was just started is ready: it is left out where there is nothing to wait for.
 */
const READY_DELAY_MS = "800";
/** Long enough to be killed within. */
const SMOKE_MS = 150;
const LEASE_MS = 1_500;

const crashAt = process.env.CRASH_AT;

/** Runs one effect of an operation with the requested crash before or after it. */
async function withCrash<T>(effect: string, work: () => Promise<T>): Promise<T> {
  if (crashAt === `${effect}:before`) process.kill(process.pid, "SIGKILL");
  const result = await work();
  if (crashAt === `${effect}:after`) process.kill(process.pid, "SIGKILL");
  return result;
}

class CrashingDriver extends LocalDriver {
  override allocate(...parameters: Parameters<LocalDriver["allocate"]>) {
    return withCrash("allocate", () => super.allocate(...parameters));
  }
  override prepare(...parameters: Parameters<LocalDriver["prepare"]>) {
    return withCrash("prepare", () => super.prepare(...parameters));
  }
  override ensureRunning(...parameters: Parameters<LocalDriver["ensureRunning"]>) {
    return withCrash("ensureRunning", () => super.ensureRunning(...parameters));
  }
  override waitReady(...parameters: Parameters<LocalDriver["waitReady"]>) {
    return withCrash("waitReady", () => super.waitReady(...parameters));
  }
  override stop(...parameters: Parameters<LocalDriver["stop"]>) {
    return withCrash("stop", () => super.stop(...parameters));
  }
  override destroy(...parameters: Parameters<LocalDriver["destroy"]>) {
    return withCrash("destroy", () => super.destroy(...parameters));
  }
}

const topicFolder = join(process.env.MILLRACE_HOME ?? "", "topics");

/** Topics as files, because the fake broker has none: they outlive this process, as a broker's do. */
const topics = {
  async create({ name }: { name: string }) {
    await mkdir(topicFolder, { recursive: true });
    await writeFile(join(topicFolder, name), "", { flag: "wx" });
  },
  async delete(name: string) {
    const gone = await rm(join(topicFolder, name)).then(
      () => true,
      () => false,
    );
    if (!gone) throw new BrokerError("topic_not_found", `there is no topic ${name}`);
  },
};

const users = {
  async describeUser(name: string) {
    return { name, mechanisms: [] };
  },
  async putPassword() {},
};

const worker = await startWorker({
  databaseUrl: process.env.DATABASE_URL ?? "",
  drivers: async () =>
    new ClusterDrivers({
      local: new CrashingDriver({
        home: process.env.MILLRACE_HOME ?? "",
        program: {
          command: [process.execPath, FAKE_MILLRACE],
          environment: {
            PATH: process.env.PATH ?? "",
            FAKE_READY_DELAY_MS: READY_DELAY_MS,
            FAKE_PERF: process.env.FAKE_PERF ?? "",
          },
        },
        ports: { kafkaFirst: 24_000, adminFirst: 24_500, tlsFirst: 29_000, count: 500 },
      }),
    }),
  logger: pino({ level: process.env.LOG_LEVEL ?? "warn" }),
  leaseMs: LEASE_MS,
  smokeCheck: () => withCrash("smokeCheck", () => sleep(SMOKE_MS)),
  topics: () => topics,
  users: () => users,
});

process.on("SIGTERM", async () => {
  await worker.stop({ stopBrokers: process.env.MILLRACE_STOP_BROKERS_ON_EXIT === "1" });
  process.exit(0);
});
process.stdout.write("worker-process: started\n");
