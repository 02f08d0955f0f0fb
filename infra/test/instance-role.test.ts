/**
 * The broker with an instance's role: it has no key of its own, asks the instance's metadata by session
 * token for temporary ones, and asks again before they end.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { consume, freePort, produce, untilHealthy } from "./slot-machine/kafka.ts";

const brokerBin = process.env.MILLRACE_BROKER_BIN;
const moto = process.env.MILLRACE_MOTO;
const missing = Object.entries({ MILLRACE_BROKER_BIN: brokerBin, MILLRACE_MOTO: moto })
  .filter(([, path]) => path === undefined || !existsSync(path))
  .map(([name]) => name);

const ROLE = "slot-role";
const BUCKET = "millrace-test-data";
const MIB = 1024 ** 2;
/** The broker asks for others five minutes before the end, so these last a second. */
const CREDENTIAL_SECONDS = 301;
const START_SECONDS_MAX = 60;

describe.skipIf(missing.length > 0)(
  `the broker with a role${missing.length > 0 ? ` (needs ${missing.join(", ")})` : ""}`,
  () => {
    let folder: string;
    let servers: Server[];
    let programs: ChildProcess[];
    /** Session tokens of the credentials that requests to the bucket were signed with. */
    let seen: Set<string>;
    let refusedWithoutToken: number;

    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), "millrace-role-"));
      servers = [];
      programs = [];
      seen = new Set();
      refusedWithoutToken = 0;
    });

    afterEach(async () => {
      for (const program of programs) {
        const ended = program.exitCode ?? once(program, "exit");
        program.kill("SIGTERM");
        await ended;
      }
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
      rmSync(folder, { recursive: true, force: true });
    });

    async function listen(server: Server): Promise<string> {
      servers.push(server);
      await once(server.listen(0, "127.0.0.1"), "listening");
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    }

    function start(name: string, program: string, args: string[], env = {}): void {
      const log = openSync(join(folder, `${name}.log`), "a");
      programs.push(
        spawn(program, args, {
          env: { PATH: process.env.PATH, HOME: folder, ...env },
          stdio: ["ignore", log, log],
        }),
      );
    }

    /** The instance's metadata, version 2 only; each answer has credentials of its own. */
    function metadata(): Server {
      let issued = 0;
      return createServer((asked, answer) => {
        const path = asked.url ?? "";
        if (asked.method === "PUT" && path === "/latest/api/token") {
          answer.end("imds-session");
          return;
        }
        if (asked.headers["x-aws-ec2-metadata-token"] !== "imds-session") {
          refusedWithoutToken += 1;
          answer.writeHead(401).end();
          return;
        }
        if (path === "/latest/meta-data/iam/security-credentials/") {
          answer.end(ROLE);
          return;
        }
        issued += 1;
        answer.end(
          JSON.stringify({
            Code: "Success",
            AccessKeyId: `ASIATEST${issued}`,
            SecretAccessKey: randomBytes(20).toString("hex"),
            Token: `session-${issued}`,
            Expiration: new Date(Date.now() + CREDENTIAL_SECONDS * 1000).toISOString(),
          }),
        );
      });
    }

    /** Passes everything on to the emulator, and notes who signed it. */
    function watched(emulatorPort: number): Server {
      return createServer((asked, answer) => {
        seen.add(String(asked.headers["x-amz-security-token"]));
        const { method, url: path, headers } = asked;
        const onward = request(
          { host: "127.0.0.1", port: emulatorPort, method, path, headers },
          (reply) => {
            answer.writeHead(reply.statusCode ?? 500, reply.headers);
            reply.pipe(answer);
          },
        );
        onward.on("error", () => answer.destroy());
        asked.pipe(onward);
      });
    }

    async function startEmulator(): Promise<number> {
      const port = await freePort();
      start("moto", moto as string, ["-H", "127.0.0.1", "-p", String(port)]);
      for (let waited = 0; waited < START_SECONDS_MAX * 5; waited++) {
        const made = await fetch(`http://127.0.0.1:${port}/${BUCKET}`, {
          method: "PUT",
          headers: { host: "s3.amazonaws.com" },
        }).catch(() => undefined);
        if (made?.ok) return port;
        await sleep(200);
      }
      throw new Error(readFileSync(join(folder, "moto.log"), "utf8"));
    }

    test("writes to its bucket, with credentials that change meanwhile", async () => {
      const imds = await listen(metadata());
      const endpoint = await listen(watched(await startEmulator()));
      const kafkaPort = await freePort();
      const properties = {
        "cluster.id": "clu_test",
        listeners: `PLAINTEXT://127.0.0.1:${kafkaPort}`,
        "admin.listener": "none",
        "data.dir": join(folder, "data"),
        "s3.wal.path": `0@file://${folder}/wal?capacity=${64 * MIB}`,
        "s3.wal.cache.size": String(16 * MIB),
        "s3.wal.upload.threshold": String(64 * 1024),
        "s3.wal.upload.interval.ms": "200",
        "s3.block.cache.size": String(16 * MIB),
        "s3.data.buckets": `0@s3://${BUCKET}?region=eu-central-1&endpoint=${endpoint}&pathStyle=true`,
      };
      const overrides = Object.entries(properties).flatMap(([k, v]) => ["--override", `${k}=${v}`]);
      const broker = ["broker", ...overrides];
      start("broker", brokerBin as string, broker, { AWS_METADATA_ENDPOINT: imds });
      await untilHealthy(kafkaPort);
      const values = Array.from({ length: 40 }, (_, index) => `${index}-${"x".repeat(8_192)}`);
      for (let at = 0; at < values.length; at += 10) {
        await produce(kafkaPort, values.slice(at, at + 10));
        await sleep(700);
      }
      expect(await consume(kafkaPort, values.length)).toEqual(values);
      const listed = await (await fetch(`${endpoint}/${BUCKET}?list-type=2`)).text();
      expect(listed.match(/<Key>/g)?.length).toBeGreaterThan(1);
      seen.delete("undefined");
      expect(refusedWithoutToken).toBe(0);
      expect([...seen].every((session) => /^session-\d+$/.test(session))).toBe(true);
      expect(seen.size).toBeGreaterThan(1);
    });
  },
);
