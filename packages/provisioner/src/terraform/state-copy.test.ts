import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MemoryStates } from "../../test/memory-states.ts";
import { parseState, StateCopy } from "./state-copy.ts";
import { StateSeal, SymmetricWrappingKey } from "./state-seal.ts";

const seal = new StateSeal(new SymmetricWrappingKey(randomBytes(32)));
const fence = { operationId: "op_a", attempt: 1 };
let folder: string;
let states: MemoryStates;

function options() {
  return { folder, organizationId: "org_a", clusterId: "clu_a", states, seal };
}

function newCopy(): StateCopy {
  return new StateCopy(options());
}

function stateText(serial: number, lineage = "l"): string {
  return JSON.stringify({ version: 4, serial, lineage, resources: [] });
}

async function write(text: string, name = "terraform.tfstate"): Promise<void> {
  await writeFile(join(folder, name), text);
}

async function fileText(): Promise<string> {
  return await readFile(join(folder, "terraform.tfstate"), "utf8");
}

async function keptSerial(): Promise<number | undefined> {
  const stored = await states.load("clu_a");
  return stored && parseState(Buffer.from(await seal.open(stored)))?.serial;
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "millrace-state-"));
  states = new MemoryStates();
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

describe("restore", () => {
  test("a lost folder is restored from the database", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    await rm(join(folder, "terraform.tfstate"));
    const { state, restored } = await newCopy().restore();
    expect([state?.serial, restored]).toEqual([4, true]);
    expect(JSON.parse(await fileText()).serial).toBe(4);
  });

  test("the newer of file and database wins", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    await write(stateText(5));
    expect((await newCopy().restore()).state?.serial).toBe(5);
    await write(stateText(3));
    expect((await newCopy().restore()).state?.serial).toBe(4);
  });

  test("a truncated file is replaced by the newer of database and backup", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    await write(stateText(6).slice(0, 20));
    expect((await newCopy().restore()).state?.serial).toBe(4);
    await write("");
    await write(stateText(5), "terraform.tfstate.backup");
    expect((await newCopy().restore()).state?.serial).toBe(5);
  });

  test("a file of another lineage is replaced and kept aside", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    await write(stateText(9, "another"));
    expect((await newCopy().restore()).state).toMatchObject({ serial: 4, lineage: "l" });
    const aside = await readFile(join(folder, "terraform.tfstate.other"), "utf8");
    expect(JSON.parse(aside).serial).toBe(9);
  });

  test("a superseded branch loses, whatever its serial", async () => {
    const away = await mkdtemp(join(tmpdir(), "millrace-state-"));
    await write(stateText(50));
    await newCopy().settle(fence);
    // Another machine takes over from the database; this one's file goes on unsaved.
    const there = new StateCopy({ ...options(), folder: away });
    await there.restore();
    await write(stateText(60));
    await writeFile(join(away, "terraform.tfstate"), stateText(52));
    await there.settle(fence);
    const { state, restored } = await newCopy().restore();
    expect([state?.serial, restored]).toEqual([52, true]);
    expect(JSON.parse(await readFile(join(folder, "terraform.tfstate.other"), "utf8")).serial).toBe(
      60,
    );
    await rm(away, { recursive: true });
  });

  test("a branch whose save came second, in the same version, loses as well", async () => {
    const away = await mkdtemp(join(tmpdir(), "millrace-state-"));
    await write(stateText(50));
    await newCopy().settle(fence);
    const [here, there] = [newCopy(), new StateCopy({ ...options(), folder: away })];
    await here.restore();
    await there.restore();
    await writeFile(join(away, "terraform.tfstate"), stateText(51));
    await there.settle(fence);
    await write(stateText(60));
    await expect(here.settle(fence)).rejects.toMatchObject({ code: "aborted" });
    expect((await newCopy().restore()).state?.serial).toBe(51);
    await rm(away, { recursive: true });
  });

  test("a save whose answer was lost counts as saved", async () => {
    await write(stateText(1));
    const copy = newCopy();
    const save = states.save.bind(states);
    states.save = async (...parameters) => {
      await save(...parameters);
      throw new Error("the connection was cut");
    };
    await copy.follow(fence);
    await write(stateText(2));
    await expect(copy.settle(fence)).rejects.toMatchObject({ code: "aborted" });
    expect((await newCopy().restore()).state?.serial).toBe(2);
  });

  test("a lone backup is restored unless it is of another lineage", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    await rm(join(folder, "terraform.tfstate"));
    await write(stateText(9, "another"), "terraform.tfstate.backup");
    expect((await newCopy().restore()).state).toMatchObject({ serial: 4, lineage: "l" });
  });

  test("a copy that cannot be decrypted is ignored if the file is as new", async () => {
    await write(stateText(4));
    await newCopy().settle(fence);
    const other = new StateSeal(new SymmetricWrappingKey(randomBytes(32)));
    const copy = new StateCopy({ ...options(), seal: other });
    const { state, restored, warning } = await copy.restore();
    expect([state?.serial, restored]).toEqual([4, false]);
    expect(warning).toContain("the file beside the stack is used");
    // From now on it opens with the key that there is.
    await copy.settle(fence);
    await rm(join(folder, "terraform.tfstate"));
    const again = new StateCopy({ ...options(), seal: other });
    expect((await again.restore()).state?.serial).toBe(4);
  });

  test.each([
    ["older", 3, "l"],
    ["of another lineage", 5, "m"],
  ])(
    "a copy that cannot be decrypted is an error if the file is %s",
    async (_, serial, lineage) => {
      await write(stateText(4));
      await newCopy().settle(fence);
      await write(stateText(serial, lineage));
      const other = new StateSeal(new SymmetricWrappingKey(randomBytes(32)));
      const copy = new StateCopy({ ...options(), seal: other });
      await expect(copy.restore()).rejects.toMatchObject({ code: "config" });
    },
  );

  test("no state anywhere gives none", async () => {
    expect(await newCopy().restore()).toEqual({ state: undefined, restored: false });
  });
});

describe("saving", () => {
  test("a change is saved once, with a version of its own", async () => {
    const copy = newCopy();
    await copy.restore();
    await write(stateText(1));
    await copy.follow(fence);
    await sleep(450);
    await copy.follow(fence);
    await copy.settle(fence);
    expect(states.saved.map((each) => each.version)).toEqual([1]);
    await write(stateText(2));
    await sleep(450);
    await copy.follow(fence);
    expect(states.saved.map((each) => [each.version, each.serial])).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  test("a truncated file is not saved", async () => {
    const copy = newCopy();
    await write(stateText(1).slice(0, 10));
    await copy.follow(fence);
    expect(states.saved).toEqual([]);
  });

  test("a short outage of the database is waited out", async () => {
    const copy = newCopy();
    await write(stateText(1));
    states.failures = 2;
    expect(await copy.settle(fence)).toBe(true);
    expect(await keptSerial()).toBe(1);
  });

  test("a fenced run stops at the next check", async () => {
    const copy = newCopy();
    await write(stateText(1));
    states.newestAttempt = 2;
    await expect(copy.follow(fence)).rejects.toMatchObject({ code: "aborted" });
    await expect(copy.settle(fence)).rejects.toMatchObject({ code: "aborted" });
  });
});
