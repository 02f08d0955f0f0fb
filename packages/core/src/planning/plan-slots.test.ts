import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { PlanSlots } from "./plan-slots.ts";

test("two plans are made at once, eight wait, the next is told to come back", async () => {
  const slots = new PlanSlots();
  const ends: (() => void)[] = [];
  let begun = 0;
  const ask = () =>
    slots.run(async () => {
      begun += 1;
      await new Promise<void>((resolve) => ends.push(resolve));
    });
  const asked = Array.from({ length: 10 }, ask);
  await expect(ask()).rejects.toMatchObject({ code: "planning_busy", retryAfterSeconds: 10 });
  expect(begun).toBe(2);
  while (begun < 10 || ends.length > 0) {
    ends.shift()?.();
    await new Promise(setImmediate);
    expect(ends.length).toBeLessThanOrEqual(2);
  }
  await Promise.all(asked);
  await slots.run(async () => undefined);
});

test("a failure gives its slot back and says what to do", async () => {
  const slots = new PlanSlots();
  for (let count = 0; count < 3; count += 1) {
    const failing = slots.run(async () => {
      throw new ProvisionError("plan_failed", "no such zone");
    });
    await expect(failing).rejects.toMatchObject({ code: "planning_failed" });
  }
  const unconfigured = slots.run(async () => {
    throw new ProvisionError("unconfigured", "no Terraform");
  });
  await expect(unconfigured).rejects.toMatchObject({ code: "region_unavailable" });
});
