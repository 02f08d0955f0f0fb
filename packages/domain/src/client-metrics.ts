/** Metrics that clients push (KIP-714). */

/** The clients that pushed metrics. */
export interface MeasuredClients {
  /** By client id. */
  readonly clients: readonly MeasuredClient[];
  /** Clients or values were left out. */
  readonly isTruncated: boolean;
}

export interface MeasuredClient {
  readonly clientId: string;
  /** The ID that a broker gave the client when it first asked what to push. */
  readonly instanceId: string;
  readonly softwareName: string | undefined;
  readonly softwareVersion: string | undefined;
  readonly address: string;
  readonly intervalMs: number;
  /** When it pushed last. */
  readonly pushedAt: Date;
  /** It has said that it stops. */
  readonly isTerminating: boolean;
  readonly metrics: readonly ClientMetric[];
}

export const CLIENT_METRIC_KINDS = ["gauge", "sum", "histogram"] as const;

export interface ClientMetric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: (typeof CLIENT_METRIC_KINDS)[number];
  /** Of a histogram, the sum of its values. Null if it is unknown or not a number. */
  readonly value: number | null;
  /** Of a histogram: how many values it has. */
  readonly count: number | undefined;
}

export interface ClientMetricsFilter {
  readonly clientId?: string | undefined;
  /** Only metrics whose names start with this. */
  readonly metric?: string | undefined;
  /** The most clients. */
  readonly limit: number;
}

/** Clients in one answer. */
export const MEASURED_CLIENTS_MAX = 1_000;
