/** How busy the processors are: a stage that leaves them idle can run beside others. */
import { cpus } from "node:os";

/** Milliseconds since boot, over all processors. */
export interface ProcessorTimes {
  idle: number;
  all: number;
}

export function processorTimes(): ProcessorTimes {
  const times = cpus().map((each) => each.times);
  return {
    idle: times.reduce((sum, { idle }) => sum + idle, 0),
    all: times.flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0),
  };
}

/** The busy part between two moments, in percent. */
export function busyPercent(from: ProcessorTimes, to: ProcessorTimes): number {
  const all = to.all - from.all;
  return all > 0 ? Math.round(100 * (1 - (to.idle - from.idle) / all)) : 0;
}
