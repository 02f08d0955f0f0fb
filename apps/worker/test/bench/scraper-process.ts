/** The part of a worker that reads metrics, as a process of its own: arguments are the gateway's address and its token. */
import { deploymentOf } from "@millrace/core";
import { openDatabase } from "@millrace/db";
import { systemClock } from "@millrace/domain";
import { awsAccess } from "@millrace/provisioner";
import { pino } from "pino";
import { BrokerScraper, type ScraperOptions } from "../../src/broker-scraper.ts";
import { PeriodicTask } from "../../src/periodic-task.ts";
import { SCRAPE_INTERVAL_MS } from "../../src/worker.ts";

const [databaseUrl = "", url = "", token = ""] = process.argv.slice(2);
const logger = pino({ level: "warn" }, pino.destination(2));
const db = openDatabase({ url: databaseUrl });
const driver = { access: awsAccess({ url, token }) };
const scraper = new BrokerScraper({
  db,
  workerId: `bench:${process.pid}`,
  drivers: { find: () => driver } as unknown as ScraperOptions["drivers"],
  deploymentOf,
  clock: systemClock,
  logger,
});
const task = new PeriodicTask({
  intervalMs: SCRAPE_INTERVAL_MS,
  run: () => scraper.runOnce(),
  onError: (error) => logger.error(error),
});
task.start();
process.once("SIGTERM", async () => {
  await task.stop();
  await scraper.close();
  await db.close();
  process.stdout.write(`${JSON.stringify(process.cpuUsage())}\n`);
});
