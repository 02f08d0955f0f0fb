import { BrokerError, type BrokerSettings } from "@millrace/broker-admin";
import {
  type Cluster,
  desiredTuning,
  endpointsOf,
  type FieldError,
  isServing,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  type TuningKnob,
} from "@millrace/domain";
import type { Core } from "../core.ts";

type BrokerWays = Pick<Core, "brokerHttp">;

/** What a broker made of settings that it was given. */
export type SettingsOutcome =
  | { readonly kind: "taken" }
  /** It did not answer, or cannot change settings now; `problem` where that is worth telling. */
  | { readonly kind: "later"; readonly problem: string | undefined }
  /** It refuses the values; `said` is its text. */
  | { readonly kind: "refused"; readonly said: string; readonly cause: BrokerError };

/** The running broker's settings; undefined where it does not answer or is not to run. */
export async function readSettings(
  ways: BrokerWays,
  cluster: Cluster,
): Promise<BrokerSettings | undefined> {
  if (!isServing(cluster.phase)) return undefined;
  try {
    return await (await ways.brokerHttp(cluster)).settings();
  } catch (error) {
    if (error instanceof BrokerError) return undefined;
    throw error;
  }
}

/** Gives the broker what the cluster's overrides say of `knobs`, or only asks whether it would take it. */
export async function giveSettings(
  ways: BrokerWays,
  cluster: Cluster,
  knobs: readonly TuningKnob[],
  options: { validateOnly: boolean },
): Promise<SettingsOutcome> {
  if (endpointsOf(cluster).length === 0 || !isServing(cluster.phase)) {
    return { kind: "later", problem: undefined };
  }
  const values = desiredTuning(cluster, cluster.tuning.overrides);
  const set = Object.fromEntries(
    knobs.map((knob) => [TUNING_PROPERTIES[knob], String(values[knob])]),
  );
  try {
    await (await ways.brokerHttp(cluster)).changeSettings({ set, ...options });
    return { kind: "taken" };
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    if (error.retryable) return { kind: "later", problem: undefined };
    if (error.code !== "invalid_config") return { kind: "later", problem: error.message };
    return { kind: "refused", said: error.said ?? error.message, cause: error };
  }
}

/** Knobs that a tenant has asked for, be it for their default. */
export function askedKnobs({ tuning }: Cluster): TuningKnob[] {
  return TUNING_KNOBS.filter((knob) => knob in tuning.overrides);
}

/**
 * The broker's refusals, a line each, at the fields that they begin with: further settings are named
 * in their reasons. One that begins with no changed field stands at the first that was changed.
 */
export function refusalFields(said: string, changed: readonly TuningKnob[]): FieldError[] {
  return said.split("\n").map((line) => {
    const blamed = changed.find((knob) => line.includes(`${TUNING_PROPERTIES[knob]}: `));
    const knob = blamed ?? changed[0];
    return {
      pointer: knob === undefined ? "" : `/${knob}`,
      code: "refused_by_broker",
      message: `was rejected by the broker: ${line}`,
    };
  });
}
