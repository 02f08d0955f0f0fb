import {
  type Changer,
  type ClusterId,
  type KnobChange,
  newId,
  type TuningChange,
  type TuningChangeId,
  type TuningKnob,
  type TuningOverrides,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { TuningChange as ChangeRow, Prisma } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface NewTuningChange {
  readonly overrides: TuningOverrides;
  /** The version that the change makes: one more than the cluster's last one. */
  readonly version: number;
  readonly by: Changer;
  readonly changes: readonly KnobChange[];
  /** The earlier change whose settings this one restores. */
  readonly reverts?: TuningChangeId | undefined;
  /** Why the broker could not take it yet, where that is more than silence. */
  readonly problem: string | undefined;
  readonly at: Date;
}

/** What clusters' tuning shall be, and who said so. The caller has checked the tenant. */
export class TuningRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Writes the desired tuning and its line of history. Within a transaction that holds the cluster's row. */
  async record(clusterId: ClusterId, change: NewTuningChange): Promise<void> {
    const { overrides, version, by, at } = change;
    await this.#client.cluster.update({
      where: { id: clusterId },
      data: {
        tuning: { ...overrides },
        tuningVersion: version,
        tuningUpdatedAt: at,
        tuningProblem: change.problem ?? null,
        version: { increment: 1 },
      },
    });
    await this.#client.tuningChange.create({
      data: {
        id: newId("tch", at.getTime()),
        clusterId,
        version,
        principalKind: by.kind,
        principalId: by.id,
        principalName: by.name,
        changes: toJson(change.changes),
        revertsId: change.reverts ?? null,
        createdAt: at,
      },
    });
  }

  /** Notes that the broker has taken this version. False, and nothing is noted, where it is not the current one. */
  async markApplied(clusterId: ClusterId, version: number): Promise<boolean> {
    const noted = await this.#client.$executeRaw`
      UPDATE cluster SET tuning_applied = ${version}, tuning_problem = NULL
      WHERE id = ${clusterId} AND tuning_version = ${version}`;
    return noted === 1;
  }

  /** Notes why the broker does not take this version. False, and nothing is noted, where it is not the current one. */
  async markProblem(clusterId: ClusterId, version: number, problem: string): Promise<boolean> {
    const noted = await this.#client.$executeRaw`
      UPDATE cluster SET tuning_problem = ${problem}
      WHERE id = ${clusterId} AND tuning_version = ${version}`;
    return noted === 1;
  }

  /** Newest first. */
  async changes(clusterId: ClusterId, page: PageRequest): Promise<Page<TuningChange>> {
    const rows = await this.#client.tuningChange.findMany({
      where: { clusterId, ...olderThan(page.after) },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
      include: REVERTED,
    });
    return pageOf(rows, page.limit, toChange);
  }

  async change(clusterId: ClusterId, id: TuningChangeId): Promise<TuningChange | undefined> {
    const row = await this.#client.tuningChange.findFirst({
      where: { clusterId, id },
      include: REVERTED,
    });
    return row ? toChange(row) : undefined;
  }

  /** The newest change after `version` that touches one of the settings. */
  async lastChangeOf(
    clusterId: ClusterId,
    knobs: readonly TuningKnob[],
    version: number,
  ): Promise<TuningChange | undefined> {
    const touches = knobs.map((knob) => ({ changes: { array_contains: [{ knob }] } }));
    const row = await this.#client.tuningChange.findFirst({
      where: { clusterId, version: { gt: version }, OR: touches },
      orderBy: { version: "desc" },
      include: REVERTED,
    });
    return row ? toChange(row) : undefined;
  }
}

function toJson(changes: readonly KnobChange[]): Prisma.InputJsonValue {
  return changes.map((change) => ({ ...change }));
}

const REVERTED = { reverts: { select: { id: true, version: true } } } as const;

type RowWithReverted = ChangeRow & { readonly reverts: { id: string; version: number } | null };

function toChange(row: RowWithReverted): TuningChange {
  return {
    id: row.id as TuningChangeId,
    clusterId: row.clusterId as ClusterId,
    version: row.version,
    by: {
      kind: row.principalKind === "api_key" ? "api_key" : "user",
      id: row.principalId,
      name: row.principalName,
    },
    changes: row.changes as unknown as KnobChange[],
    reverts: row.reverts
      ? { id: row.reverts.id as TuningChangeId, version: row.reverts.version }
      : undefined,
    createdAt: row.createdAt,
  };
}
