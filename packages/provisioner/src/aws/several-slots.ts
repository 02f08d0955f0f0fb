/**
 * Changes of a cluster of several slots on AWS: what a broker leads is given to the others before its instance is replaced or its
 * slot is removed, so that clients notice no more than a redirect.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  DescribeAutoScalingGroupsCommand,
  UpdateAutoScalingGroupCommand,
} from "@aws-sdk/client-auto-scaling";
import { BrokerError, type BrokerHttp } from "@millrace/broker-admin";
import { type ClusterMember, systemClock } from "@millrace/domain";
import type { RunOptions } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import type { AwsClients } from "./aws-account.ts";
import { askingAws } from "./sdk-errors.ts";
import { type OutdatedInstance, replaceInstance } from "./slot-roll.ts";

export interface SeveralSlotsOptions {
  readonly clients: Pick<AwsClients, "autoScaling">;
  /** Of the brokers that stay. */
  readonly brokerIds: readonly number[];
  readonly admin: (brokerId: number) => Pick<BrokerHttp, "cluster" | "drain">;
  /** Name of a slot's Auto Scaling group. */
  readonly groupOf: (brokerId: number) => string;
  readonly waits?: Waits | undefined;
}

export interface Waits {
  /** All partitions of a broker move within this: each in a moment, 200 at a time. */
  readonly drainMs: number;
  /** Auto Scaling ends an instance within minutes; what its broker could not upload, the others take over then. */
  readonly leftMs: number;
  readonly pollMs: number;
}

const WAITS: Waits = { drainMs: 5 * 60_000, leftMs: 15 * 60_000, pollMs: 2_000 };

type IsDone = (member: ClusterMember | undefined) => boolean;

export class SeveralSlots {
  readonly #options: SeveralSlotsOptions;
  readonly #waits: Waits;

  constructor(options: SeveralSlotsOptions) {
    this.#options = options;
    this.#waits = options.waits ?? WAITS;
  }

  /** The first broker that is not an active member of the cluster, but for one that need not be. */
  async missing(except?: number): Promise<number | undefined> {
    const members = await this.#members();
    const stateOf = (id: number) => members.find(({ brokerId }) => brokerId === id)?.state;
    return this.#options.brokerIds.find((id) => id !== except && stateOf(id) !== "active");
  }

  /**
   * Ends an instance whose group starts another one, once its broker leads nothing. Does nothing, and returns false, while one of
   * the other brokers does not serve. Throws `ProvisionError` `not_drained_in_time`, `aborted`.
   */
  async replace(instance: OutdatedInstance, options: RunOptions): Promise<boolean> {
    // The broker itself may be draining: a caller that was killed began this.
    if ((await this.missing(instance.slot)) !== undefined) return false;
    await this.drain(instance.slot, options);
    await askingAws("not_ready_in_time", () => replaceInstance(this.#options.clients, instance));
    return true;
  }

  /** Gives away what a broker leads. Throws `ProvisionError` `not_drained_in_time`, `aborted`. */
  async drain(brokerId: number, options: RunOptions): Promise<void> {
    const known = (await this.#members()).find((member) => member.brokerId === brokerId);
    // A broker that is no member leads nothing, and could not be asked to give anything away.
    if (known === undefined || !isServing(known)) return;
    tell(options, `moving the partitions of broker ${brokerId} to the others`);
    if (known.state === "active") await this.#anyOf((http) => http.drain(brokerId));
    const isDrained: IsDone = (member) =>
      member === undefined || !isServing(member) || member.leaders === 0;
    await this.#until(brokerId, isDrained, this.#waits.drainMs, options, "still leads partitions");
  }

  /**
   * Gives away what a broker leads and ends its instance for good, while all that stay serve; nothing of the slot is needed any
   * more when this returns.
   * Throws `ProvisionError` `not_drained_in_time`, `aborted`.
   */
  async retire(brokerId: number, options: RunOptions): Promise<void> {
    const missing = await this.missing();
    if (missing !== undefined) {
      const message = `broker ${missing} does not serve, so broker ${brokerId} stays: nothing of it was removed`;
      throw new ProvisionError("not_drained_in_time", message);
    }
    await this.drain(brokerId, options);
    tell(options, `ending the instance of broker ${brokerId}`);
    await askingAws("apply_failed", () => this.#empty(brokerId));
    const hasLeft: IsDone = (member) => (member?.state ?? "left") === "left";
    const reason =
      "has not left the cluster: the others need its log, so nothing of it was removed";
    await this.#until(brokerId, hasLeft, this.#waits.leftMs, options, reason);
  }

  /** A group without instances, which starts none. Nothing happens where the group is gone. */
  async #empty(brokerId: number): Promise<void> {
    const { autoScaling } = this.#options.clients;
    const AutoScalingGroupName = this.#options.groupOf(brokerId);
    const names = { AutoScalingGroupNames: [AutoScalingGroupName] };
    const answer = await autoScaling.send(new DescribeAutoScalingGroupsCommand(names));
    if ((answer.AutoScalingGroups ?? []).length === 0) return;
    const size = { MinSize: 0, MaxSize: 0, DesiredCapacity: 0 };
    await autoScaling.send(new UpdateAutoScalingGroupCommand({ AutoScalingGroupName, ...size }));
  }

  async #until(
    brokerId: number,
    isDone: IsDone,
    timeoutMs: number,
    { signal }: RunOptions,
    reason: string,
  ): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const members = await this.#members();
      // Without an answer nothing is known of it.
      const member = members.find((each) => each.brokerId === brokerId);
      if (members.length > 0 && isDone(member)) return;
      if (performance.now() >= deadline) {
        throw new ProvisionError("not_drained_in_time", `broker ${brokerId} ${reason}`);
      }
      if (signal?.aborted) {
        throw new ProvisionError("aborted", "waiting for the brokers was aborted");
      }
      await sleep(this.#waits.pollMs);
    }
  }

  /** As a broker that answers knows them; empty where none does. */
  async #members(): Promise<readonly ClusterMember[]> {
    try {
      return (await this.#anyOf((http) => http.cluster())).members;
    } catch (error) {
      if (error instanceof BrokerError) return [];
      throw error;
    }
  }

  /** Throws the last broker's `BrokerError` where none answers. */
  async #anyOf<T>(ask: (http: ReturnType<SeveralSlotsOptions["admin"]>) => Promise<T>): Promise<T> {
    let failure: unknown;
    for (const brokerId of this.#options.brokerIds) {
      try {
        return await ask(this.#options.admin(brokerId));
      } catch (error) {
        if (!(error instanceof BrokerError)) throw error;
        failure = error;
      }
    }
    throw failure ?? new BrokerError("unreachable", "no broker of the cluster answers");
  }
}

function isServing({ state }: ClusterMember): boolean {
  return state === "active" || state === "draining";
}

function tell({ onEvent }: RunOptions, message: string): void {
  onEvent?.({ at: systemClock.now().getTime(), level: "info", kind: "run", message });
}
