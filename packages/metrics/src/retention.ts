/** How far ahead partitions are made: a worker that is late loses nothing. */
const AHEAD_MS = 2 * 3_600_000;
/** Readings of a broker's start lie some minutes back. */
const BACK_MS = 3_600_000;

export interface PartitionedReadings {
  preparePartitions(range: { from: Date; to: Date }): Promise<number>;
  dropPartitions(now: Date): Promise<number>;
}

/** Makes the partitions of the time to come, then drops those that are too old. */
export async function keepPartitions(readings: PartitionedReadings, now: Date): Promise<void> {
  const from = new Date(now.getTime() - BACK_MS);
  const range = { from, to: new Date(now.getTime() + AHEAD_MS) };
  await readings.preparePartitions(range);
  await readings.dropPartitions(now);
}
