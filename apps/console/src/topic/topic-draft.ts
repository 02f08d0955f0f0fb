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

/** Why the number of partitions cannot be had; undefined where it can. */
export function partitionsError(topic: Topic, draft: TopicDraft): string | undefined {
  const partitions = Number(draft.partitions);
  if (draft.partitions === "" || !Number.isInteger(partitions)) return "Write a whole number";
  if (partitions < topic.partitions) return `There are ${topic.partitions}: never fewer`;
  if (partitions > TOPIC_PARTITIONS_MAX) return `At most ${TOPIC_PARTITIONS_MAX}`;
  return undefined;
}
