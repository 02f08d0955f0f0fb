/**
 * `npm run drill:aws -- --kills 30 --seed 7`: a cluster's whole life on an emulated AWS, with the
 * worker and Terraform killed at random instants. Exits with 0 where all was as it should be.
 */
import { parseArgs } from "node:util";
import { hasEmulator } from "../../../packages/provisioner/test/moto.ts";
import { drill } from "../test/aws-drill.ts";
import { AwsSite } from "../test/aws-site.ts";

const { values } = parseArgs({
  options: { kills: { type: "string", default: "30" }, seed: { type: "string" } },
});
const kills = Number(values.kills);
const seed = Number(values.seed ?? Date.now() % 1_000_000);
if (!Number.isInteger(kills) || kills < 0 || !Number.isInteger(seed)) {
  process.stderr.write("drill:aws: --kills and --seed are whole numbers\n");
  process.exit(2);
}
if (!hasEmulator) {
  process.stderr.write(
    "drill:aws: set MILLRACE_MOTO to moto_server, MILLRACE_TERRAFORM_MIRROR to a folder with the " +
      "AWS provider, and MILLRACE_TERRAFORM_BIN to Terraform 1.11 where it is not on PATH\n",
  );
  process.exit(2);
}
const say = (line: string) => process.stdout.write(`drill:aws: ${line}\n`);
say(`${kills} kills, seed ${seed}`);
const site = await AwsSite.open();
try {
  const report = await drill(site, { kills, seed, say });
  say(`passed: ${JSON.stringify(report)}`);
} catch (error) {
  say(`FAILED (seed ${seed}): ${error instanceof Error ? error.stack : String(error)}`);
  process.exitCode = 1;
} finally {
  await site.close();
}
