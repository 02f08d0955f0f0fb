/** What a slot's instance is told at its start. Holds no secret: anyone on the instance reads it. */
export interface UserDataSpec {
  readonly region: string;
  readonly clusterId: string;
  /** Number of the slot, from 0. */
  readonly slot: number;
  /** Tags by which the slot's volume is found. */
  readonly volumeTags: Readonly<Record<string, string>>;
  readonly artefact: { readonly bucket: string; readonly key: string; readonly sha256: string };
  /** Bucket that holds the cluster's records. */
  readonly dataBucket: string;
  /** Name of the secret that holds the token of the admin HTTP. */
  readonly adminTokenSecret: string;
  readonly logGroup: string;
  /** Where clients reach this slot: what the broker advertises. */
  readonly advertised: { readonly host: string; readonly port: number };
  /** Broker properties that follow from size, volume and settings. */
  readonly properties: Readonly<Record<string, string>>;
  readonly wal: { readonly sizeGib: number; readonly iops: number };
}

/** The script that an instance of a slot runs at every boot. At most 16 KiB. */
export function userData(spec: UserDataSpec): string {
  return `#!/bin/bash\nset -euo pipefail\necho "millrace ${spec.clusterId} slot ${spec.slot}"\n`;
}
