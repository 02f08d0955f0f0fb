/** A stack's folder and its Terraform in memory: records commands and returns given plans. */
import type { RunOptions } from "../src/change-plan.ts";
import type { StateDocument } from "../src/terraform/state-copy.ts";
import type { TerraformPlanOptions, Workspace } from "../src/terraform/workspace.ts";

interface PlannedResource {
  readonly address: string;
  readonly type: string;
  readonly actions: readonly string[];
  readonly id?: string;
}

export class FakeWorkspace {
  readonly folder = "/nonexistent";
  readonly files = new Map<string, unknown>();
  /** Every command, and `remove` of the folder. */
  readonly commands: string[] = [];
  resources: StateDocument["resources"] = [];
  /** What the next plans would change. */
  planned: readonly PlannedResource[] = [];
  /** What the next plans find, as Terraform reads it: values by address. */
  read: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {};
  /** Called with the ids of what a purge destroys. */
  onDestroy: (ids: readonly string[]) => void = () => {};
  /** The next applies fail with it. */
  applyFailure: Error | undefined;

  /** As the real one is handed over. */
  get real(): Workspace {
    return this as unknown as Workspace;
  }

  async session<T>(_options: RunOptions, work: (run: unknown) => Promise<T>): Promise<T> {
    const self = this;
    return await work({
      get state() {
        return { serial: 1, lineage: "l", resources: self.resources, text: Buffer.from("") };
      },
      events: { say: (message: string) => void self.commands.push(`say ${message}`) },
      prepare: async () => {},
      plan: async (options: TerraformPlanOptions) => self.#plan(options),
      apply: async (planId: string) => await self.#apply(planId),
      untaint: async (address: string) => {
        self.commands.push(`untaint ${address}`);
        self.resources = self.resources.map(({ isTainted: _, ...kept }) => kept);
      },
      import: async (address: string, id: string) => {
        self.commands.push(`import ${address} ${id}`);
        const [type = ""] = address.split(".");
        self.resources = [...self.resources, { address, type, attributes: { id } }];
        return true;
      },
    });
  }

  async readJson(name: string): Promise<unknown> {
    return this.files.get(name);
  }

  async writeJson(name: string, value: unknown): Promise<void> {
    this.files.set(name, JSON.parse(JSON.stringify(value)));
  }

  async dropPlans(except: string): Promise<void> {
    for (const name of this.#plans()) {
      if (!name.startsWith(`plans/${except}.`)) this.files.delete(name);
    }
  }

  async hasPlans(): Promise<boolean> {
    return this.#plans().length > 0;
  }

  async remove(): Promise<void> {
    this.files.clear();
    this.commands.push("remove");
  }

  #plans(): string[] {
    return [...this.files.keys()].filter((name) => name.startsWith("plans/"));
  }

  #plan({ destroy }: TerraformPlanOptions): unknown {
    this.commands.push(destroy ? "plan -destroy" : "plan");
    const resources = Object.entries(this.read).map(([address, values]) => ({
      ...{ address, type: address.split(".")[0], mode: "managed", values },
    }));
    const values = { root_module: { resources } };
    return {
      format_version: "1.2",
      prior_state: { values },
      planned_values: destroy ? {} : values,
      resource_changes: this.planned.map(({ address, type, actions, id }) => ({
        ...{ address, type, mode: "managed", name: address.split(".")[1] },
        change: { actions, before: { id }, after: null, after_unknown: {} },
      })),
    };
  }

  async #apply(planId: string): Promise<void> {
    this.commands.push(`apply ${planId.split("-")[0]}`);
    if (this.applyFailure !== undefined) throw this.applyFailure;
    if (!planId.startsWith("purge-")) return;
    this.onDestroy(this.resources.map(({ attributes }) => String(attributes.id)));
    this.resources = [];
  }
}
