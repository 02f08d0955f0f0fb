import type { WalVolumeType } from "@millrace/domain";

/**
 * How the volume of a broker that died keeps it from acknowledging, before another one in its zone reads its log:
 * - `reservation`  an io2 volume is attached to several instances (Multi-Attach), and takes writes of one only: seconds;
 * - `detach`       any other volume is taken from the dead broker's instance: as long as AWS takes for that.
 */
export type WalFence = "reservation" | "detach";

export function walFence(type: WalVolumeType): WalFence {
  return type === "io2" ? "reservation" : "detach";
}
