/** Terraform, or the API, ends while a cluster is being made: the next apply goes on with the same one. */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { rest, unique } from "../product.ts";
import { ApiProxy } from "./api-proxy.ts";
import { configuration } from "./configuration.ts";
import { crashApi, whileWorkerStands } from "./processes.ts";
import { buildProvider, type RunOptions, Workspace, whyNot } from "./terraform.ts";

const CLUSTER = "millrace_cluster.this";
const isWait = (call: string) => /^GET \/v1\/operations\/op_/.test(call);
const isCreate = (call: string) => call === "POST /v1/clusters";

describe.skipIf(whyNot)("a create that is interrupted", () => {
  let name: string;
  let workspace: Workspace;
  let proxy: ApiProxy;

  beforeAll(buildProvider);

  beforeEach(async () => {
    name = unique("tf");
    workspace = new Workspace(["main.tf", configuration({ name, topics: 1 })]);
    proxy = await ApiProxy.start();
  });

  afterEach(async () => {
    proxy.stop();
    await workspace.remove();
  });

  /** There is one cluster of that name, which runs and was created by one operation. */
  async function expectOne(): Promise<{ clusterId: string; operationId: string }> {
    const { body: clusters } = await rest("GET", "/v1/clusters?page_size=1000");
    const named = clusters.items.filter(
      (each: { spec: { name: string } }) => each.spec.name === name,
    );
    expect(named).toHaveLength(1);
    expect(named[0].status.phase).toBe("RUNNING");
    const clusterId = named[0].metadata.id as string;
    const { body: operations } = await rest("GET", `/v1/operations?cluster_id=${clusterId}`);
    expect(operations.items.map((each: { kind: string }) => each.kind)).toEqual(["cluster.create"]);
    return { clusterId, operationId: operations.items[0].id };
  }

  it("by Ctrl-C: the next apply waits for the same operation", async () => {
    const options: RunOptions = {
      endpoint: proxy.endpoint,
      onStart: (terraform) => {
        const waiting = setInterval(() => {
          if (!proxy.calls.some(isWait)) return;
          clearInterval(waiting);
          // As the terminal does it: to the whole group.
          process.kill(-(terraform.pid as number), "SIGINT");
        }, 20);
        terraform.on("exit", () => clearInterval(waiting));
      },
    };
    const begun = await whileWorkerStands(async () => {
      const interrupted = await workspace.run(["apply", "-auto-approve"], options);
      expect(interrupted.output).toMatch(/Interrupt received/);
      const left = (await workspace.resources())[CLUSTER];
      expect(left, interrupted.output).toMatchObject({ state: "PROVISIONING" });
      // Not tainted: nothing would be replaced.
      expect((await workspace.plan())[CLUSTER]).toBe("update");
      return left;
    });
    await workspace.apply();
    expect(await expectOne()).toEqual({
      clusterId: begun.id,
      operationId: begun.last_operation_id,
    });
    expect(await workspace.plan()).toEqual({});
  });

  it("by kill -9 of Terraform and its provider: the next apply says how the cluster is taken over", async () => {
    const options: RunOptions = {
      endpoint: proxy.endpoint,
      onStart: (terraform) => {
        const waiting = setInterval(() => {
          if (!proxy.calls.some(isWait)) return;
          clearInterval(waiting);
          process.kill(-(terraform.pid as number), "SIGKILL");
        }, 20);
        terraform.on("exit", () => clearInterval(waiting));
      },
    };
    const killed = await whileWorkerStands(() =>
      workspace.run(["apply", "-auto-approve"], options),
    );
    expect(killed.code).toBe(137);
    // Terraform writes its state after each answer of the provider only, so the id is not in it.
    const refused = await workspace.run(["apply", "-auto-approve"]);
    expect(refused.code).toBe(1);
    const said = refused.output.replaceAll(/[\s│]+/g, " ");
    const [, clusterId] = /terraform import <address> (clu_\w+)/.exec(said) ?? [];
    expect(clusterId, said).toBeDefined();
    const imported = await workspace.run(["import", CLUSTER, String(clusterId)]);
    expect(imported, imported.output).toMatchObject({ code: 0 });
    await workspace.apply();
    await expectOne();
    expect(await workspace.plan()).toEqual({});
  });

  it("by a crash of the API that waits: the apply goes through", async () => {
    let crashed: Promise<void> | undefined;
    const output = await whileWorkerStands(async () => {
      const options: RunOptions = {
        endpoint: proxy.endpoint,
        onStart: (terraform) => {
          const waiting = setInterval(() => {
            if (!proxy.calls.some(isWait)) return;
            clearInterval(waiting);
            crashed = crashApi();
          }, 20);
          terraform.on("exit", () => clearInterval(waiting));
        },
      };
      const applying = workspace.apply(options);
      while (crashed === undefined) await Promise.race([applying, pause()]);
      await crashed;
      return { applying };
    });
    expect(await output.applying).toContain("Apply complete!");
    await expectOne();
  });

  it("by a crash of the API that loses its answer: the repeated request makes no second cluster", async () => {
    let crashed: Promise<void> | undefined;
    proxy.onAnswer = async (call, status) => {
      if (!isCreate(call) || status !== 202 || crashed !== undefined) return true;
      crashed = crashApi();
      await crashed;
      return false;
    };
    expect(await workspace.apply({ endpoint: proxy.endpoint })).toContain("Apply complete!");
    expect(crashed).toBeDefined();
    expect(proxy.calls.filter(isCreate)).toHaveLength(2);
    await expectOne();
  });
});

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}
