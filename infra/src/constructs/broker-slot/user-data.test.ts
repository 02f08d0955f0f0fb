import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DATABASE_AUTHORITY } from "../../../test/stack-fixture.ts";
import {
  AUTHORITY_FILE,
  type BrokerSlotSpec,
  type SeveralSettings,
  scriptOfSeveral,
  userData,
} from "./user-data.ts";

const SPEC: BrokerSlotSpec = {
  clusterId: "clu_01JABCDEFGHJKMNPQRSTVWXYZ0",
  slot: 2,
  region: "ap-northeast-1",
  broker: {
    bucket: "millrace-artefacts-123456789012-ap-northeast-1",
    key: `broker/${"f".repeat(64)}/millrace-aarch64`,
    sha256: "f".repeat(64),
  },
  dataBucket: {
    name: "millrace-abcdefghij-data-123456789012",
    uri: "s3://millrace-abcdefghij-data-123456789012?region=ap-northeast-1",
  },
  link: {
    address: "abcdefghij.link.millrace.example.com:443",
    credentialSecret: "millrace-abcdefghij/link-1",
  },
  kafkaPort: 9092,
  advertised: { host: "b2.abcdefghij.millrace.internal", port: 9095 },
  wal: { capacityBytes: 17_179_869_184, ioDepth: 16, iops: 16_000, bandwidthBytes: 1_048_576_000 },
  logGroup: "/millrace/clu_01JABCDEFGHJKMNPQRSTVWXYZ0",
  properties: {
    "s3.wal.cache.size": "2147483648",
    "s3.wal.upload.threshold": "524288000",
    "s3.block.cache.size": "2147483648",
    "offsets.topic.num.partitions": "50",
    "s3.network.ingress.baseline.bandwidth": "1310720000",
    "s3.network.egress.baseline.bandwidth": "1310720000",
  },
};

const SEVERAL: SeveralSettings = {
  rack: "ap-northeast-1c",
  fence: "detach",
  metadataSecret: "millrace-abcdefghij/metadata-url",
  databaseAuthority: DATABASE_AUTHORITY,
};

const OF_SEVERAL = { ...SPEC, several: SEVERAL };

/** What each setting that a tenant may tune costs at most; ten more of them must fit. */
const PROPERTY_BYTES = 60;
const PROPERTIES_SPARE = 10;

/** The value that the shell gives to a constant of the script's head. */
function constantOf(script: string, name: string): string {
  const head = script.slice(0, script.indexOf("set -euo pipefail"));
  return execFileSync("bash", ["-c", `${head}\nprintf %s "$${name}"`]).toString();
}

describe("user data", () => {
  test("says which slot it is, with what", () => {
    const script = userData(SPEC);
    expect(script).toMatch(
      /^#!\/bin\/bash\nCLUSTER_ID='clu_01JABCDEFGHJKMNPQRSTVWXYZ0'\nSLOT='2'\n/,
    );
    expect(constantOf(script, "DATA_BUCKET_URI")).toBe(SPEC.dataBucket.uri);
    expect(constantOf(script, "WAL_PARAMETERS")).toBe(
      "&iodepth=16&iops=16000&bandwidth=1048576000",
    );
    expect(constantOf(script, "PROPERTIES")).toContain("s3.wal.cache.size=2147483648\ns3.wal.up");
  });

  test("fits, with room for settings that come", () => {
    expect(Buffer.byteLength(userData(SPEC))).toBeLessThan(
      16_384 - PROPERTY_BYTES * PROPERTIES_SPARE,
    );
  });

  test("of several is the same on every machine, and unpacks to the script", () => {
    const text = userData(OF_SEVERAL);
    expect(text).toBe(userData(OF_SEVERAL));
    expect(Buffer.byteLength(text)).toBeLessThan(16_384 - PROPERTY_BYTES * PROPERTIES_SPARE);
    // The shell's own words, up to where it would run what it unpacked.
    const unpack = text.replace(/^exec bash .*$/m, 'cat "$script"; rm "$script"');
    expect(execFileSync("bash", ["-c", unpack]).toString()).toBe(scriptOfSeveral(OF_SEVERAL));
  });

  test("of several has what one alone has not, and nothing of a recovery from the bucket", () => {
    const [one, several] = [userData(SPEC), scriptOfSeveral(OF_SEVERAL)];
    for (const part of [
      "broker.rack=",
      "metadata.database.url=",
      "&fence=",
      "attach_shared",
      "own_devices",
    ]) {
      expect(several).toContain(part);
      expect(one).not.toContain(part);
    }
    for (const part of [
      "await_approval",
      "recover_volume",
      "ExecStopPost",
      "mkfs.xfs",
      "PrivateDevices",
    ]) {
      expect(one).toContain(part);
      expect(several).not.toContain(part);
    }
    for (const text of [one, several]) expect(text).not.toMatch(/^\s*#[:{}]/m);
    expect(several).toContain("ETC=$RUN/etc");
    expect(AUTHORITY_FILE).toBe("/run/millrace/etc/database-ca.pem");
  });

  test("is refused where it does not fit", () => {
    const properties = Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [`s3.some.long.property.${index}`, "1"]),
    );
    expect(() => userData({ ...SPEC, properties })).toThrow(
      /user data has \d+ bytes, EC2 takes 16384/,
    );
  });

  test.each<[string, Partial<BrokerSlotSpec>, RegExp]>([
    ["a quote", { logGroup: "a'; rm -rf / '" }, /LOG_GROUP cannot stand in user data/],
    ["a line end", { clusterId: "clu_a\nclu_b" }, /CLUSTER_ID cannot stand/],
    ["an empty checksum", { broker: { ...SPEC.broker, sha256: "" } }, /64 lower-case hexadecimal/],
    ["a negative slot", { slot: -1 }, /slot must be a whole number from 0/],
    ["a port of 0", { kafkaPort: 0 }, /kafkaPort/],
    ["a port that is none", { advertised: { host: "h", port: 70_000 } }, /advertised.port must be/],
    ["a log of no bytes", { wal: { capacityBytes: 0 } }, /wal.capacityBytes/],
    ["half an IOPS", { wal: { capacityBytes: 1, iops: 0.5 } }, /iops must be a whole number/],
    ["a property of its own", { properties: { "node.id": "7" } }, /node.id is the slot's own/],
    [
      "a property of two lines",
      { properties: { a: "1\nnode.id=7" } },
      /the property a cannot stand/,
    ],
    [
      "an authority that is none",
      { several: { ...SEVERAL, databaseAuthority: "'; rm -rf /" } },
      /must be one certificate in PEM/,
    ],
    ["the zone as a property", { properties: { "broker.rack": "a" } }, /broker.rack is the slot/],
    ["a property with a quote", { properties: { a: "'" } }, /the property a cannot stand/],
  ])("refuses %s", (_, change, problem) => {
    expect(() => userData({ ...SPEC, ...change })).toThrow(problem);
  });

  const shellcheck = process.env.MILLRACE_SHELLCHECK;
  const absent = shellcheck === undefined || !existsSync(shellcheck);
  test.skipIf(absent)(
    `shellcheck finds nothing${absent ? " (needs MILLRACE_SHELLCHECK)" : ""}`,
    () => {
      const check = (args: string[], input?: string) =>
        execFileSync(shellcheck as string, ["--enable=avoid-nullary-conditions", ...args], {
          input,
          encoding: "utf8",
        });
      expect(check(["--shell=bash", "-"], userData(SPEC))).toBe("");
      expect(check(["--shell=bash", "-"], scriptOfSeveral(OF_SEVERAL))).toBe("");
      expect(check(["--shell=bash", "-"], userData(OF_SEVERAL))).toBe("");
      const machine = join(import.meta.dirname, "../../../test/slot-machine");
      const fakes = readdirSync(join(machine, "bin")).map((name) => join(machine, "bin", name));
      expect(check([join(machine, "enter.sh"), ...fakes])).toBe("");
    },
  );
});
