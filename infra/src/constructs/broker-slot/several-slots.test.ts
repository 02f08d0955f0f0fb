/** Steps of the script of a slot of several, with other programs in place of those of the instance. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DATABASE_AUTHORITY } from "../../../test/stack-fixture.ts";
import type { WalFence } from "../../stacks/cluster/wal-fence.ts";
import { scriptOfSeveral } from "./user-data.ts";

const URL_TEXT = "postgres://millrace:p@db.test:5432/millrace?sslmode=verify-full";
let folder: string;

function program(name: string, text: string): void {
  const path = join(folder, "bin", name);
  writeFileSync(path, `#!/bin/bash\n${text}\n`);
  chmodSync(path, 0o755);
}

/** Runs a step; answers what it was to AWS. */
function run(step: string, fence: WalFence): string[] {
  const script = scriptOfSeveral({
    ...{ clusterId: "clu_1", slot: 2, region: "eu-central-1", kafkaPort: 9092 },
    broker: { bucket: "builds", key: "broker/1", sha256: "a".repeat(64) },
    dataBucket: { name: "data", uri: "s3://data" },
    link: { address: "link.test:443", credentialSecret: "link-2" },
    advertised: { host: "b2.test", port: 9095 },
    wal: { capacityBytes: 1, iops: 3000 },
    logGroup: "/millrace/clu_1",
    properties: { "s3.wal.cache.size": "1" },
    several: {
      ...{ rack: "eu-central-1b", fence, metadataSecret: "metadata-url" },
      databaseAuthority: DATABASE_AUTHORITY,
    },
  })
    .replace("RUN=/run/millrace", `RUN=${folder}/run`)
    .replace("OPT=/opt/millrace", `OPT=${folder}/opt`)
    .replace("PATH=/usr/local/sbin", `PATH=${folder}/bin:/usr/local/sbin`)
    .replace(/^case "\$\{1:-install\}" in[\s\S]*$/m, step);
  execFileSync("bash", ["-c", script], { stdio: ["ignore", "pipe", "pipe"] });
  return readFileSync(join(folder, "calls"), "utf8").trim().split("\n");
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-slot-"));
  for (const each of ["bin", "run", "opt/current"])
    mkdirSync(join(folder, each), { recursive: true });
  writeFileSync(join(folder, "calls"), "");
  writeFileSync(join(folder, "run/volume"), "vol-2\n");
  // The group of the broker does not exist here.
  program(
    "install",
    `args=(); while (($#)); do case $1 in -g | -o) shift ;; *) args+=("$1") ;; esac; shift; done
exec /usr/bin/install "\${args[@]}"`,
  );
  program("curl", `case "$*" in *local-ipv4*) echo 10.40.1.7 ;; *) echo i-2 ;; esac`);
  program("millrace", "exit 0");
  execFileSync("cp", [join(folder, "bin/millrace"), join(folder, "opt/current/millrace")]);
  program(
    "aws",
    `echo "$*" >>${folder}/calls
case "$*" in
  *get-secret-value*) echo '${URL_TEXT}' ;;
  *describe-volumes*) printf 'vol-2\\t2\\nvol-5\\t5\\n' ;;
esac`,
  );
});

afterEach(() => rmSync(folder, { recursive: true }));

test("settings name the zone, the fence with the log's volume, and the metadata", () => {
  run("write_properties", "detach");
  const etc = join(folder, "run/etc");
  const lines = readFileSync(join(etc, "server.properties"), "utf8").trim().split("\n");
  expect(lines).toEqual(
    expect.arrayContaining([
      "node.id=2",
      "broker.rack=eu-central-1b",
      "inter.broker.listener=10.40.1.7:9103",
      `metadata.database.url=${URL_TEXT}`,
      "s3.wal.path=0@file:///var/lib/millrace/wal/wal?capacity=0&iops=3000&fence=detach&volume=vol-2",
      "s3.wal.cache.size=1",
    ]),
  );
  expect(readFileSync(join(etc, "database-ca.pem"), "utf8")).toBe(DATABASE_AUTHORITY);
});

test("io2 volumes of the zone are attached, each under the name of its slot", () => {
  const [looked, ...attached] = run("attach_shared", "reservation");
  expect(looked).toContain("Name=tag:millrace:cluster,Values=clu_1");
  expect(looked).toContain("Name=availability-zone,Values=eu-central-1b");
  expect(attached.map((call) => call.replace(/^.*(?=--volume-id)/, ""))).toEqual([
    "--volume-id vol-2 --instance-id i-2 --device /dev/sdg",
    "--volume-id vol-5 --instance-id i-2 --device /dev/sdj",
  ]);
});

test("a volume that is fenced by its detachment is left to the broker", () => {
  expect(run("attach_shared", "detach")).toEqual([""]);
});
