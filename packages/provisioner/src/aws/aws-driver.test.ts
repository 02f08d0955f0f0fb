import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LOCAL_DEPLOYMENT } from "../../test/deployment.ts";
import { MemoryStates } from "../../test/memory-states.ts";
import { driverOptions } from "../../test/moto.ts";
import { StateSeal, SymmetricWrappingKey } from "../terraform/state-seal.ts";
import { externalIdOf } from "./aws-account.ts";
import { AwsDriver } from "./aws-driver.ts";

const NOWHERE = "http://127.0.0.1:9";
const state = (resources: unknown[]) =>
  Buffer.from(JSON.stringify({ version: 4, serial: 3, lineage: "l", resources }));
const vpc = {
  mode: "managed",
  type: "aws_vpc",
  name: "network_vpc",
  instances: [{ attributes: { id: "vpc-1" } }],
};
const identity = {
  clusterId: "clu_a",
  organizationId: "org_a",
  version: 1,
  serial: 3,
  lineage: "l",
};

let home: string;
let states: MemoryStates;
const key = new SymmetricWrappingKey(randomBytes(32));

function newDriver(seal = new StateSeal(key)): AwsDriver {
  return new AwsDriver(driverOptions(home, NOWHERE, { states, seal }));
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-driver-"));
  states = new MemoryStates();
});

afterEach(async () => await rm(home, { recursive: true }));

describe("without requests to AWS", () => {
  test("a cluster is destroyed when no state holds anything of it", async () => {
    const driver = newDriver();
    expect(await driver.isDestroyed("clu_a")).toBe(true);
    const seal = new StateSeal(key);
    await states.save(await seal.seal(identity, state([vpc])), undefined);
    expect(await driver.isDestroyed("clu_a")).toBe(false);
    await states.save(await seal.seal({ ...identity, version: 2 }, state([])), undefined);
    expect(await driver.isDestroyed("clu_a")).toBe(true);
  });

  test("clusters are those of the folders and those of the database", async () => {
    await mkdir(join(home, "terraform", "clu_b"), { recursive: true });
    await states.save(await new StateSeal(key).seal(identity, state([vpc])), undefined);
    expect(await newDriver().list()).toEqual(["clu_a", "clu_b"]);
  });

  test("a cluster without a folder cannot be destroyed by its id alone", async () => {
    await states.save(await new StateSeal(key).seal(identity, state([vpc])), undefined);
    await expect(newDriver().destroy("clu_a")).rejects.toMatchObject({ code: "not_prepared" });
  });

  test("an id that leaves the folder is rejected", async () => {
    await expect(newDriver().isDestroyed("../clu_a")).rejects.toThrow("not a cluster id");
  });
});

test("maintenance rewraps the state's key after a rotation", async () => {
  await states.save(await new StateSeal(key).seal(identity, state([vpc])), undefined);
  const next = new SymmetricWrappingKey(randomBytes(32));
  const ciphertext = states.saved[0]?.ciphertext;
  const placement = { host: "none", kafkaPort: 9092 };
  const wanted = { ...LOCAL_DEPLOYMENT, clusterId: "clu_a", placement };
  await newDriver(new StateSeal(next, [key])).maintain(wanted);
  expect(states.saved[0]?.keyId).toBe(next.id);
  expect(states.saved[0]?.ciphertext).toBe(ciphertext);
  expect(await newDriver(new StateSeal(next)).isDestroyed("clu_a")).toBe(false);
});

test("an invalid role ARN is rejected at the start", () => {
  const options = driverOptions(home, NOWHERE);
  const account = { ...options.account, roleArn: "millrace" };
  expect(() => new AwsDriver({ ...options, account })).toThrow("MILLRACE_AWS_ROLE_ARN");
});

test("an external id is unique per tenant and does not reveal the secret", () => {
  const [a, b] = [externalIdOf("secret", "org_a"), externalIdOf("secret", "org_b")];
  expect(a).not.toBe(b);
  expect(externalIdOf("another", "org_a")).not.toBe(a);
  expect(a).toMatch(/^millrace-[0-9a-f]{40}$/);
});
