/**
 * The user data on a machine of its own: what it does to a blank volume, to its own, and to everything
 * else that a volume may hold.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startGateway } from "./slot-machine/gateway.ts";
import { consume, freePort, produce, untilHealthy } from "./slot-machine/kafka.ts";
import {
  CREDENTIAL,
  INSTANCE,
  isThere,
  SlotMachine,
  unitsOf,
  VOLUME,
  whyNot,
} from "./slot-machine/machine.ts";
import { LINK_SECRET } from "./slot-machine/slot-spec.ts";

const brokerBin = process.env.MILLRACE_BROKER_BIN;
const reason = whyNot(brokerBin);
const SELF = "/usr/local/sbin/millrace-slot";
/** A broker that was cut off dials again after seconds. */
const LINK_MS_MAX = 60_000;
const LINK_FILE = "/run/millrace/link.credential";
/** How exposed the broker's unit may be by systemd's own analysis. */
const EXPOSURE_MAX = 2.5;

describe.skipIf(reason)(`user data on a machine${reason ? ` (${reason})` : ""}`, () => {
  let machine: SlotMachine;
  let ports: { kafkaPort: number };
  let folder: string;
  let published: string;

  // Most of a debug build is symbols, and each machine fetches the broker and computes its checksum.
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "millrace-published-"));
    published = join(folder, "millrace");
    execFileSync("strip", ["-o", published, brokerBin as string]);
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  beforeEach(async () => {
    machine = await SlotMachine.create(published);
    ports = { kafkaPort: await freePort() };
  });

  afterEach(async () => {
    await machine.remove();
  });

  async function bootOk(options: { readonly linkPort?: number } = {}): Promise<string> {
    const installed = await machine.firstBoot({ ...ports, ...options });
    expect(installed).toMatchObject({ code: 0 });
    const prepared = await machine.start("millrace-slot.service");
    expect(prepared, prepared.output).toMatchObject({ code: 0 });
    return prepared.output;
  }

  async function serve(): Promise<void> {
    await machine.startBroker();
    await untilHealthy(ports.kafkaPort);
  }

  /** Boots, and expects a refusal that leaves every byte of the volume as it was. */
  async function refused(): Promise<string> {
    const before = await machine.checksum();
    await machine.publish();
    await machine.powerOn();
    expect(await machine.firstBoot(ports)).toMatchObject({ code: 0 });
    const prepared = await machine.start("millrace-slot.service");
    expect(prepared, prepared.output).toMatchObject({ code: 1 });
    expect(machine.read("formatted")).toBe("");
    await machine.powerOff();
    expect(await machine.checksum()).toBe(before);
    return prepared.output;
  }

  describe("its own volume", () => {
    test("blank: formatted, mounted, served; and found again by a reboot and another instance", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      expect(machine.lines("formatted")).toHaveLength(1);
      const mounted = await machine.run("findmnt", "-no", "FSTYPE,OPTIONS", "/var/lib/millrace");
      expect(mounted.output).toMatch(/^xfs .*nosuid,nodev,noexec,noatime/);
      await serve();
      await produce(ports.kafkaPort, ["one", "two"]);
      expect(await consume(ports.kafkaPort, 2)).toEqual(["one", "two"]);

      // A reboot without a farewell: the root volume stays, cloud-init does not run again.
      await machine.powerOff();
      await machine.powerOn();
      const again = await machine.start("millrace-slot.service");
      expect(again, again.output).toMatchObject({ code: 0 });
      await serve();
      await produce(ports.kafkaPort, ["three"]);

      // Another instance: nothing is there but the volume and the bucket.
      await machine.replace("i-00000000000000002");
      await machine.powerOn();
      await bootOk();
      await serve();
      expect(await consume(ports.kafkaPort, 3)).toEqual(["one", "two", "three"]);
      expect(machine.lines("formatted")).toHaveLength(1);
    });

    test("a step that is repeated changes nothing", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      const state = () =>
        machine.run(
          ...["find", "/etc/millrace", "/opt/millrace", "/var/lib/millrace", "-printf"],
          "%p %y %m %u %s\n",
        );
      const fetched = machine.lines("calls").filter((call) => call.includes("get-object")).length;
      const { output: before } = await state();
      expect(before).toContain("/var/lib/millrace/slot f 644 root");
      expect((await machine.start("millrace-slot.service")).code).toBe(0);
      expect((await state()).output).toBe(before);
      const calls = machine.lines("calls").filter((call) => call.includes("get-object"));
      expect(calls).toHaveLength(fetched);
    });

    test.each<[string, string]>([
      ["mkfs", ""],
      ["mount", ""],
      ["mv", "1"],
      // The second is the credential's, without which a slot goes on.
      ["mv", "3"],
      ["mv", "4"],
    ])("cut off at %s %s, the next attempt goes on", async (program, nth) => {
      await machine.publish();
      await machine.powerOn();
      expect(await machine.firstBoot(ports)).toMatchObject({ code: 0 });
      machine.write(`cut/${program}`, nth);
      const cut = await machine.start("millrace-slot.service");
      expect(cut).toMatchObject({ code: 137 });
      await machine.powerOff();
      rmSync(join(machine.folder, "outside/cut", program));
      await machine.powerOn();
      const next = await machine.start("millrace-slot.service");
      expect(next, next.output).toMatchObject({ code: 0 });
      expect(machine.lines("formatted")).toHaveLength(1);
      await serve();
    });

    test("grown: the file system follows while it is in use; the log keeps its capacity", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      await serve();
      const size = async () =>
        Number(
          (await machine.run("df", "--output=size", "/var/lib/millrace")).output.split("\n")[1],
        );
      const before = await size();
      machine.grow(768);
      machine.write("journal", "");
      await machine.run(SELF, "tick");
      expect(await size()).toBeGreaterThan(before + 200_000);
      await produce(ports.kafkaPort, ["still here"]);

      await machine.replace("i-00000000000000002");
      await machine.powerOn();
      await machine.firstBoot({ ...ports, walCapacityBytes: 128 * 1024 ** 2 });
      const prepared = await machine.start("millrace-slot.service");
      expect(prepared.output).toContain("keeps its 67108864 bytes");
      await serve();
      expect(await consume(ports.kafkaPort, 1)).toEqual(["still here"]);
    });
  });

  describe("what is not its own is refused and left as it is:", () => {
    const tool = (name: string, ...args: string[]) =>
      execFileSync(name, args, { env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" }, stdio: "pipe" });
    const write = (offset: number, bytes: Buffer) => {
      const file = openSync(machine.device, "r+");
      writeSync(file, bytes, 0, bytes.length, offset);
      closeSync(file);
    };

    test("another kind of file system", async () => {
      tool("mkfs.ext4", "-q", machine.device);
      expect(await refused()).toMatch(/holds ext4[\s\S]*REFUSED: .*neither blank nor this slot's/);
    });

    test("a partition table", async () => {
      const table = Buffer.alloc(512);
      // One partition of type Linux from sector 2048, and the signature.
      Buffer.from([0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 8, 0]).copy(table, 446);
      table.writeUInt16LE(0xaa55, 510);
      write(0, table);
      expect(await refused()).toContain("REFUSED");
    });

    test("a write-ahead log without a file system", async () => {
      await machine.publish();
      await machine.powerOn();
      const run = machine.run(
        ...["/outside/artefacts/broker/millrace", "broker"],
        ...["--override", "data.dir=/tmp/data", "--override", "admin.listener=none"],
        ...["--override", `listeners=PLAINTEXT://127.0.0.1:${ports.kafkaPort}`],
        ...["--override", `s3.wal.path=0@file://${machine.device}?capacity=0`],
      );
      await untilHealthy(ports.kafkaPort);
      await produce(ports.kafkaPort, ["one"]);
      await machine.powerOff();
      await run;
      expect(await refused()).toContain("holds bytes that are not zero");
    });

    test("half of a superblock", async () => {
      tool("mkfs.xfs", "-q", machine.device);
      write(0, Buffer.alloc(48));
      expect(await refused()).toContain("REFUSED");
    });

    test("the file system of another cluster", async () => {
      tool("mkfs.xfs", "-q", "-m", "uuid=11111111-2222-8333-8444-555555555555", machine.device);
      expect(await refused()).toContain("belongs to another cluster or slot");
    });

    test("bytes at the far end only", async () => {
      write(512 * 1024 ** 2 - 4096, Buffer.from("backup of a partition table"));
      expect(await refused()).toContain("holds bytes that are not zero");
    });

    test("a blank volume beside a bucket that holds data", async () => {
      machine.write("bucket/an/object", "records");
      expect(await refused()).toContain("restore that volume from a snapshot");
    });

    test("its own file system, which says that it is another slot's", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      await machine.run("sh", "-c", "echo cluster=clu_other >/var/lib/millrace/slot");
      await machine.powerOff();
      await machine.powerOn();
      const { code, output } = await machine.start("millrace-slot.service");
      expect({ code, output }).toMatchObject({ code: 1 });
      expect(output).toContain("belongs to cluster=clu_other");
      expect((await machine.run("mountpoint", "/var/lib/millrace")).code).not.toBe(0);
    });
  });

  describe("a volume that was lost: blank, beside a bucket that knows this node", () => {
    /** A broker as far as the script asks it: it recovers as it is told to. */
    const BROKER = `#!/bin/bash
set -eu
echo "$*" >>/outside/asked
case "$*" in
  "broker --check"*) ;;
  "recover --config /etc/millrace/server.properties --dry-run --json") cat /outside/report ;;
  "recover --config /etc/millrace/server.properties --yes")
    if [ -e /outside/fails ]; then exit 1; fi
    echo recovered >/var/lib/millrace/data/meta.db
    ;;
  *) exit 2 ;;
esac
`;
    const REPORT = '{"source":"bucket","missing":[]}\n';
    const RECOVERY = `bucket/meta/nodes/0/recovery/${VOLUME}`;

    async function bootLost(): Promise<void> {
      await machine.publish(BROKER);
      machine.write("bucket/meta/nodes/0/log/0000000000000001", "the backup of the metadata");
      machine.write("report", REPORT);
      machine.write("asked", "");
      chmodSync(join(machine.folder, "outside/asked"), 0o666);
      await machine.powerOn();
      const sha256 = createHash("sha256").update(BROKER).digest("hex");
      expect(await machine.firstBoot({ ...ports, sha256 })).toMatchObject({ code: 0 });
    }

    const prepare = () => machine.start("millrace-slot.service");
    const asked = (what: string) => machine.lines("asked").filter((line) => line.includes(what));

    test("is reported and left as it is, until its recovery is approved", async () => {
      const before = await machine.checksum();
      await bootLost();
      for (let attempt = 0; attempt < 2; attempt++) {
        const { code, output } = await prepare();
        expect({ code, output }).toMatchObject({ code: 1 });
        expect(output).toContain("REFUSED: the volume was lost");
      }
      expect(machine.read(`${RECOVERY}/report`)).toBe(REPORT);
      expect(asked("--dry-run")).toHaveLength(1);
      // An approval of the volume before holds for no other.
      machine.write("bucket/meta/nodes/0/recovery/vol-00000000000000002/approved", "");
      expect(await prepare()).toMatchObject({ code: 1 });
      expect(machine.read("formatted")).toBe("");
      expect(await machine.checksum()).toBe(before);

      machine.write(`${RECOVERY}/approved`, "");
      const { code, output } = await prepare();
      expect({ code, output }).toMatchObject({ code: 0 });
      expect(machine.lines("formatted")).toHaveLength(1);
      const owner = await machine.run("stat", "-c", "%U", "/var/lib/millrace/data/meta.db");
      expect(owner.output.trim()).toBe("millrace");
      expect(await prepare()).toMatchObject({ code: 0 });
      expect(asked("--yes")).toHaveLength(1);

      // The approval was of the loss that was reported, not of what is lost later.
      await machine.run("rm", "/var/lib/millrace/data/meta.db");
      expect(await prepare()).toMatchObject({ code: 0 });
      expect(asked("--yes")).toHaveLength(1);
    });

    test("is recovered by the next attempt where the first one failed, and formatted once", async () => {
      await bootLost();
      machine.write(`${RECOVERY}/approved`, "");
      machine.write("fails", "");
      const failed = await prepare();
      expect(failed, failed.output).toMatchObject({ code: 1 });
      expect(failed.output).toContain("REFUSED: the recovery failed");
      rmSync(join(machine.folder, "outside/fails"));
      const next = await prepare();
      expect(next, next.output).toMatchObject({ code: 0 });
      expect(machine.lines("formatted")).toHaveLength(1);
      expect(asked("--yes")).toHaveLength(2);
    });

    test("without a readable backup is left as it is", async () => {
      await bootLost();
      rmSync(join(machine.folder, "outside/report"));
      const { code, output } = await prepare();
      expect({ code, output }).toMatchObject({ code: 1 });
      expect(output).toContain("REFUSED: the backup in data is not readable");
      expect(machine.read(`${RECOVERY}/report`)).toBe("");
      expect(machine.read("formatted")).toBe("");
    });
  });

  test("metadata lost on an intact volume is reported and recovered once approved, with every record", async () => {
    await machine.publish();
    await machine.powerOn();
    await bootOk();
    await serve();
    await produce(ports.kafkaPort, ["one", "two"]);
    const refusals = () => machine.brokerLog().split("exit 65").length - 1;
    const loseMetadata = async (): Promise<string> => {
      const before = refusals();
      await machine.powerOff();
      await machine.powerOn();
      expect(await machine.start("millrace-slot.service")).toMatchObject({ code: 0 });
      await machine.run("sh", "-c", "rm /var/lib/millrace/data/meta.db*");
      await machine.startBroker();
      await expect.poll(refusals, { timeout: 90_000 }).toBe(before + 1);
      await machine.brokerEnded(65);
      expect(machine.read("systemctl")).toContain("--no-block restart millrace-slot\n");
      for (let attempt = 0; attempt < 2; attempt++) {
        const { code, output } = await machine.start("millrace-slot.service");
        expect({ code, output }).toMatchObject({ code: 1 });
        expect(output).toContain("REFUSED: the broker's metadata was lost; recover the cluster");
      }
      const loss = (await machine.run("cat", "/var/lib/millrace/loss")).output.trim();
      return `bucket/meta/nodes/0/recovery/${VOLUME}/${loss}`;
    };
    const first = await loseMetadata();
    const report = JSON.parse(machine.read(`${first}/report`)) as object;
    expect(report).toMatchObject({ source: "bucket+wal", missing: [], warnings: [] });
    machine.write(`${first}/approved`, "");
    expect(await machine.start("millrace-slot.service")).toMatchObject({ code: 0 });
    await serve();
    expect(await consume(ports.kafkaPort, 2)).toEqual(["one", "two"]);

    // The approval was for the first loss.
    expect(await loseMetadata()).not.toBe(first);
    expect(machine.lines("formatted")).toHaveLength(1);
  });

  test("a broker that ended for another reason is not reported as lost", async () => {
    await machine.publish();
    await machine.powerOn();
    await bootOk();
    for (const status of [0, 1, 75, 79, "KILL"]) await machine.brokerEnded(status);
    expect(machine.read("systemctl")).not.toContain("restart");
    expect(await machine.start("millrace-slot.service")).toMatchObject({ code: 0 });
  });

  describe("what it waits for, and what it does not take", () => {
    test("a volume that another instance holds: until it is free", async () => {
      await machine.publish();
      machine.write(`volumes/${VOLUME}/holder`, "i-0dead");
      machine.write(`volumes/${VOLUME}/looks`, "4");
      await machine.powerOn();
      const output = await bootOk();
      expect(output.match(/held by i-0dead; waiting/g)).toHaveLength(3);
      expect(machine.read(`volumes/${VOLUME}/holder`).trim()).toBe(INSTANCE);
    });

    test("a volume that stays with another instance: so long, never by force, and then says so", async () => {
      machine.write(`volumes/${VOLUME}/holder`, "i-0alive");
      const output = await refused();
      expect(output).toContain(`REFUSED: ${VOLUME} is still in-use, held by i-0alive`);
      expect(machine.read("slept").match(/^5$/gm)).toHaveLength(120);
      expect(machine.read("calls")).not.toMatch(/attach-volume|detach-volume/);
    });

    test("permissions that are a moment old", async () => {
      await machine.publish();
      machine.write("faults/ec2.describe-volumes", "3");
      await machine.powerOn();
      expect(await bootOk()).toContain("finding the volume failed (attempt 3 of 10)");
    });

    test.each([
      ["no volume", 1],
      ["two volumes", 0],
    ])("%s with the slot's tags", async (_, slot) => {
      machine.addVolume(slot === 1 ? VOLUME : "vol-00000000000000002", "clu_test", slot);
      expect(await refused()).toMatch(slot === 1 ? /REFUSED: 0 volumes/ : /REFUSED: 2 volumes/);
    });

    test("a broker with another checksum: not kept, not run, the volume of before untouched", async () => {
      await machine.publish("#!/bin/sh\ntouch /outside/ran\n");
      await machine.powerOn();
      await machine.firstBoot(ports);
      const { code, output } = await machine.start("millrace-slot.service");
      expect({ code, output }).toMatchObject({ code: 1 });
      expect(output).toContain("does not have the SHA-256");
      expect(machine.read("ran")).toBe("");
      const kept = await machine.run("find", "/opt/millrace", "-type", "f");
      expect(kept.output).toBe("");
    });

    test("a broker that was changed where it is kept: fetched again", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      await machine.run("sh", "-c", "echo >>/opt/millrace/current/millrace");
      expect((await machine.start("millrace-slot.service")).code).toBe(0);
      await serve();
    });
  });

  describe("once it runs", () => {
    test("the credential of the link stands in memory only, for the broker alone", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      const mode = await machine.run("stat", "-c", "%a %U", LINK_FILE);
      expect(mode.output.trim()).toBe("600 millrace");
      const found = await machine.run(
        ...["grep", "-rlF", CREDENTIAL, "/etc", "/var", "/opt", "/root", "/usr/local"],
      );
      expect(found.output).toBe("");
    });

    test("a slot serves without a credential, and takes each one that comes", async () => {
      const credential = async () => (await machine.run("cat", LINK_FILE)).output.trim();
      machine.write(`secrets/${LINK_SECRET}`, "None");
      await machine.publish();
      await machine.powerOn();
      expect(await bootOk()).toContain("no link credential yet");
      await serve();
      expect(await credential()).toContain("No such file");
      for (const letter of ["b", "c"]) {
        const next = `mlk_${letter.repeat(43)}`;
        machine.write(`secrets/${LINK_SECRET}`, next);
        expect(await machine.run(SELF, "tick")).toMatchObject({ code: 0 });
        expect(await credential()).toBe(next);
      }
      machine.write("faults/secretsmanager.get-secret-value", "1");
      expect(await machine.run(SELF, "tick")).toMatchObject({ code: 1 });
      expect(await credential()).toBe(`mlk_${"c".repeat(43)}`);
    });

    test("the broker dials a gateway with the slot's credential, and with the next one after a rotation", async () => {
      let valid = CREDENTIAL;
      const gateway = await startGateway(machine.folder, (credential) => credential === valid);
      try {
        await machine.publish();
        await machine.powerOn();
        // The broker verifies the gateway by the roots of the system.
        machine.trust(gateway.root);
        await bootOk({ linkPort: gateway.port });
        await serve();
        const ready = () => gateway.status("/readyz");
        await expect.poll(ready, { timeout: LINK_MS_MAX }).toBe(200);
        expect(new Set(gateway.shown)).toEqual(new Set([CREDENTIAL]));

        valid = `mlk_${"b".repeat(43)}`;
        machine.write(`secrets/${LINK_SECRET}`, valid);
        expect(await machine.run(SELF, "refresh_link")).toMatchObject({ code: 0 });
        gateway.hangUp();
        await expect.poll(ready, { timeout: LINK_MS_MAX }).toBe(200);
        expect(gateway.shown.at(-1)).toBe(valid);
      } finally {
        await gateway.stop();
      }
    });

    test("nobody but Kafka's clients can connect: the admin HTTP has no port", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      await serve();
      const { output } = await machine.run("cat", "/etc/millrace/server.properties");
      expect(output).not.toMatch(/^admin\./m);
      expect(output).toContain(`control.link.credential.file=${LINK_FILE}\n`);
      expect(await machine.listening()).toEqual([ports.kafkaPort]);
    });

    test("each minute: metrics, and log lines once each, none missing", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      const line = (n: number, message: unknown) =>
        `${JSON.stringify({ __CURSOR: `c${n}`, __REALTIME_TIMESTAMP: `${n}000000`, MESSAGE: message })}\n`;
      machine.write("journal", line(1, "first") + line(2, [104, 105, 255]));
      machine.write("faults/logs.put-log-events", "2");
      expect((await machine.run(SELF, "tick")).code).toBe(1);
      expect(machine.read("metrics")).toContain("MetricName=Ready,Value=0");
      expect(machine.read("logged")).toBe("");
      await serve();
      expect((await machine.run(SELF, "tick")).code).toBe(0);
      expect(machine.read("metrics")).toMatch(
        /MetricName=Ready,Value=1,Dimensions=\[\{Name=Cluster,Value=clu_test/,
      );
      expect(machine.read("metrics")).toMatch(/WalVolumeUsedPercent,Unit=Percent,Value=\d+/);
      machine.write("journal", machine.read("journal") + line(3, "third"));
      expect((await machine.run(SELF, "tick")).code).toBe(0);
      expect((await machine.run(SELF, "tick")).code).toBe(0);
      const messages = machine.lines("logged").flatMap((batch) => JSON.parse(batch) as unknown[]);
      expect(messages).toEqual([
        { timestamp: 1000, message: "first" },
        { timestamp: 2000, message: "hi\ufffd" },
        { timestamp: 3000, message: "third" },
      ]);
    });

    test("each minute: what the instance's metadata does not tell keeps nothing else from being done", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      const line = (n: number) =>
        `${JSON.stringify({ __CURSOR: `c${n}`, __REALTIME_TIMESTAMP: `${n}000000`, MESSAGE: `line ${n}` })}\n`;
      machine.write("journal", line(1));
      expect((await machine.run(SELF, "tick")).code).toBe(0);
      const size = async () =>
        (await machine.run("df", "--output=size", "/var/lib/millrace")).output;
      const before = await size();

      machine.write("faults/metadata", "");
      machine.write("journal", line(1) + line(2));
      machine.grow(768);
      expect((await machine.run(SELF, "tick")).code).toBe(1);
      expect(await size()).not.toBe(before);
      expect(machine.read("logged")).toContain("line 2");
      const streams = machine.lines("calls").filter((call) => call.includes("create-log-stream"));
      expect(streams.every((call) => call.includes(`slot-0/${INSTANCE}`))).toBe(true);
      expect((await machine.run("cat", "/var/spool/millrace/instance")).output).toContain(INSTANCE);
    });

    test("starts that follow each other wait longer each time, up to a minute", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      const before = machine.lines("slept").length;
      for (let start = 0; start < 9; start++) await machine.run(SELF, "backoff");
      expect(machine.lines("slept").slice(before).map(Number)).toEqual([
        0, 2, 4, 8, 16, 32, 60, 60, 60,
      ]);
    });

    test.skipIf(!isThere("systemd-analyze"))("systemd takes the units", async () => {
      await machine.publish();
      await machine.powerOn();
      await bootOk();
      expect(machine.read("systemctl")).toContain(
        "enable millrace-slot.service millrace-tick.timer",
      );
      const units = await unitsOf(machine);
      expect(units).toHaveLength(4);
      const said = await machine.run("systemd-analyze", "verify", "--man=no", ...units);
      expect(said).toEqual({ code: 0, output: "" });
      // Ten times systemd's measure, in which 0 is shut off and 10 may do everything.
      const security = ["security", "--offline=yes", `--threshold=${EXPOSURE_MAX * 10}`];
      const analysed = await machine.run("systemd-analyze", ...security, "millrace.service");
      expect(analysed, analysed.output).toMatchObject({ code: 0 });
    });
  });
});
