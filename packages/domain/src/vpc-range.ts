/** Address ranges of VPCs that are made for clusters. Two that overlap can never be peered. */

/** Of the control plane's own VPC, where its operator names none. No cluster gets it by itself. */
export const CONTROL_PLANE_VPC_RANGE = "10.90.0.0/20";

/** Ranges that a cluster gets by itself: 10.40.0.0/16 to 10.255.0.0/16, more than an organization has clusters. */
const FIRST = 40;
const LAST = 255;

/**
 * The first range of ours that overlaps with none of `taken`, all of them like `10.40.0.0/16`, nor with the control
 * plane's.
 */
export function freeVpcRange(taken: readonly string[]): string | undefined {
  const others = [...taken, CONTROL_PLANE_VPC_RANGE];
  for (let second = FIRST; second <= LAST; second += 1) {
    const range = `10.${second}.0.0/16`;
    if (!others.some((each) => rangesOverlap(range, each))) return range;
  }
  return undefined;
}

/** Whether two IPv4 ranges share an address. */
export function rangesOverlap(a: string, b: string): boolean {
  const [first, second] = [boundsOf(a), boundsOf(b)];
  return first.from <= second.to && second.from <= first.to;
}

function boundsOf(range: string): { from: number; to: number } {
  const [address = "", prefix = "32"] = range.split("/");
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - Number(prefix));
  const from = Math.floor(number / size) * size;
  return { from, to: from + size - 1 };
}
