import type { TopicScrape } from "@millrace/domain";

/**
 * Readings of zero for topics that a broker's last reading did not have: their counters began then, and without such a
 * reading the first real one would be their base. One pass over the topics, one row however many are new.
 *
 * A topic that was deleted and created again may have counted more than before. So its zero follows a gap, which ends its
 * earlier series at every resolution.
 */
export function topicStarts(
  topics: readonly TopicScrape[],
  known: ReadonlySet<string>,
  began: Date,
): TopicScrape[] {
  const zero = { at: began, afterGap: true, bytesIn: 0n, bytesOut: 0n, recordsIn: 0n };
  return topics.filter(({ topic }) => !known.has(topic)).map((each) => ({ ...each, ...zero }));
}
