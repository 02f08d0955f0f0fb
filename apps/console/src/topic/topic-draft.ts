/** What somebody is about to change of a topic. Pure, so that it is tested alone. */
import type { Topic } from "@millrace/contract";
import { TOPIC_PARTITIONS_MAX } from "@millrace/domain";

export interface TopicDraft {
  partitions: number | string;
  /** New values of settings; null is the default again. */
  configs: Readonly<Record<string, string | null>>;
}

/** A setting as it is shown: what it is, and what it is to become. */
export interface ShownSetting {
  name: string;
  value: string | null;
  /** Whether the topic itself sets it now. */
  own: boolean;
  /** Undefined: it is left as it is. */
  override: string | null | undefined;
}

/** Settings that most topics are made for; the others are shown when asked for. */
const USUAL = [
  "cleanup.policy",
  "retention.ms",
  "retention.bytes",
  "max.message.bytes",
  "message.timestamp.type",
  "compression.type",
];

export function topicDraftOf({ partitions }: Topic): TopicDraft {
  return { partitions, configs: {} };
}

/** The topic's own settings first, then the usual ones; with `all`, whatever there is. */
export function settingsOf(topic: Topic, draft: TopicDraft, all: boolean): ShownSetting[] {
  const settings = Object.entries(topic.configs ?? {}).map(([name, { value, source }]) => ({
    name,
    value,
    own: source === "topic",
    override: draft.configs[name],
  }));
  return settings
    .filter(
      ({ name, own, override }) => all || own || override !== undefined || USUAL.includes(name),
    )
    .toSorted((a, b) => Number(b.own) - Number(a.own) || a.name.localeCompare(b.name, "en"));
}

/** The draft with one more override; undefined removes it. */
export function withOverride(
  draft: TopicDraft,
  name: string,
  override: string | null | undefined,
): TopicDraft {
  const { [name]: _before, ...others } = draft.configs;
  return { ...draft, configs: override === undefined ? others : { ...others, [name]: override } };
}

/** What the API is asked: only what differs. */
export function topicPatchOf(topic: Topic, draft: TopicDraft) {
  const partitions = Number(draft.partitions);
  const configs = Object.entries(draft.configs).filter(([name, override]) => {
    const now = topic.configs?.[name];
    return override === null ? now?.source === "topic" : override !== now?.value;
  });
  return {
    ...(partitions !== topic.partitions && { partitions }),
    ...(configs.length > 0 && { configs: Object.fromEntries(configs) }),
  };
}

export const PARTITIONS_RULE =
  "Can be increased later, never reduced. More partitions move keys to other partitions";

/**
 * Why a new topic cannot have so many partitions. A field that clamps what was typed would create
 * another topic than the one that was asked for.
 */
export function newPartitionsError(typed: number | string): string | undefined {
  const partitions = Number(typed);
  if (typed === "" || !Number.isInteger(partitions)) return "Enter a whole number";
  if (partitions < 1) return "Enter 1 or more";
  if (partitions > TOPIC_PARTITIONS_MAX) {
    return `Enter ${TOPIC_PARTITIONS_MAX.toLocaleString("en")} or fewer`;
  }
  return undefined;
}

/** Why the topic cannot have so many partitions; undefined where it can. */
export function partitionsError(topic: Topic, draft: TopicDraft): string | undefined {
  const error = newPartitionsError(draft.partitions);
  if (error !== undefined) return error;
  if (Number(draft.partitions) >= topic.partitions) return undefined;
  return `Enter ${topic.partitions} or more: partitions cannot be reduced`;
}
