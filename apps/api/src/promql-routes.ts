/**
 * Prometheus' HTTP API for each cluster, so that Grafana can use Millrace as a data source:
 * https://prometheus.io/docs/prometheus/latest/querying/api/. Answers and mistakes in queries have Prometheus' form;
 * callers that are not known or not allowed, and clusters that they do not have, get a problem document as elsewhere.
 */
import { DomainError } from "@millrace/domain";
import { createPromqlCaller } from "@millrace/router";
import { type Context, Hono } from "hono";
import type { Logger } from "pino";
import { problemResponse } from "./problem-response.ts";
import type { ApiEnv } from "./request-context.ts";

const BASE = "/v1/clusters/:cluster_id/prometheus/api/v1";
const FORM = "application/x-www-form-urlencoded";

type Caller = ReturnType<typeof createPromqlCaller>;
type PromqlRequest = Parameters<Caller["metrics"]["promql"]>[0]["request"];

const STATUSES = { bad_data: 400, execution: 422, timeout: 503 } as const;

/** A parameter that cannot be read. */
class BadParameter extends Error {}

export function promqlRoutes(log: Logger): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  /** Unknown parameters are ignored, as Prometheus ignores them. */
  const on = (
    path: string,
    read: (parameters: URLSearchParams, c: Context<ApiEnv>) => PromqlRequest,
  ) => {
    app.on(["GET", "POST"], `${BASE}/${path}`, async (c) => {
      try {
        return await answer(c, read);
      } catch (error) {
        return problemResponse(c, log, error);
      }
    });
  };
  on("query", (parameters) => ({
    kind: "query",
    query: parameters.get("query") ?? "",
    timeMs: timeOf(parameters, "time"),
  }));
  on("query_range", (parameters) => ({
    kind: "query_range",
    query: parameters.get("query") ?? "",
    startMs: required(parameters, "start", timeOf),
    endMs: required(parameters, "end", timeOf),
    stepMs: required(parameters, "step", durationOf),
  }));
  on("series", (parameters) => ({ kind: "series", ...namesOf(parameters) }));
  on("labels", (parameters) => ({ kind: "labels", ...namesOf(parameters) }));
  on("label/:name/values", (parameters, c) => ({
    kind: "label_values",
    label: c.req.param("name") ?? "",
    ...namesOf(parameters),
  }));
  on("metadata", (parameters) => ({
    kind: "metadata",
    metric: parameters.get("metric") ?? undefined,
  }));
  on("status/buildinfo", () => ({ kind: "buildinfo" }));
  return app;
}

async function answer(
  c: Context<ApiEnv>,
  read: (parameters: URLSearchParams, c: Context<ApiEnv>) => PromqlRequest,
): Promise<Response> {
  const context = c.get("context");
  // Unauthenticated callers learn nothing, not even what is wrong with their request.
  await context.authenticate();
  c.header("Cache-Control", "no-store");
  const parameters = await parametersOf(c);
  let request: PromqlRequest | BadParameter;
  try {
    request = read(parameters, c);
  } catch (error) {
    if (!(error instanceof BadParameter)) throw error;
    request = error;
  }
  const { promql } = createPromqlCaller(context).metrics;
  const cluster_id = c.req.param("cluster_id") ?? "";
  if (request instanceof BadParameter) {
    // Whose cluster it is comes before what is wrong with the request.
    await promql({ cluster_id, request: { kind: "buildinfo" } });
    return c.json({ status: "error", errorType: "bad_data", error: request.message }, 400);
  }
  const result = await promql({ cluster_id, request });
  return c.json(result, result.status === "success" ? 200 : STATUSES[result.errorType]);
}

/** Those of the URL and, of a POST, those of the form. */
async function parametersOf(c: Context<ApiEnv>): Promise<URLSearchParams> {
  const parameters = new URLSearchParams(new URL(c.req.url).search);
  if (c.req.method !== "POST") return parameters;
  const body = await c.req.text();
  if (body === "") return parameters;
  const type = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== FORM) {
    throw new DomainError(
      "validation_failed",
      `The body must be a form, with Content-Type: ${FORM}.`,
    );
  }
  for (const [name, value] of new URLSearchParams(body)) parameters.append(name, value);
  return parameters;
}

function namesOf(parameters: URLSearchParams) {
  const limit = parameters.get("limit") ?? "0";
  if (!/^\d{1,9}$/.test(limit)) throw new BadParameter('invalid parameter "limit"');
  return {
    match: parameters.getAll("match[]"),
    startMs: timeOf(parameters, "start"),
    endMs: timeOf(parameters, "end"),
    limit: Number(limit),
  };
}

type ReadParameter = (parameters: URLSearchParams, name: string) => number | undefined;

function required(parameters: URLSearchParams, name: string, read: ReadParameter): number {
  const value = read(parameters, name);
  if (value === undefined) throw new BadParameter(`invalid parameter "${name}": it is missing`);
  return value;
}

const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/;

/** Seconds since the epoch or RFC 3339, in milliseconds. */
function timeOf(parameters: URLSearchParams, name: string): number | undefined {
  const text = parameters.get(name);
  if (text === null || text === "") return undefined;
  const timeMs = NUMBER.test(text)
    ? Math.round(Number(text) * 1_000)
    : RFC_3339.test(text)
      ? Date.parse(text)
      : Number.NaN;
  if (Number.isNaN(timeMs)) throw new BadParameter(`invalid parameter "${name}": not a timestamp`);
  return timeMs;
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_536_000_000,
};

/** Seconds, or a duration like 1m30s, in milliseconds. */
function durationOf(parameters: URLSearchParams, name: string): number | undefined {
  const text = parameters.get(name);
  if (text === null || text === "") return undefined;
  if (NUMBER.test(text)) return Math.round(Number(text) * 1_000);
  if (!/^(\d{1,9}(ms|[smhdwy])){1,7}$/.test(text)) {
    throw new BadParameter(`invalid parameter "${name}": not a duration`);
  }
  const parts = [...text.matchAll(/(\d+)(ms|[smhdwy])/g)];
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (UNITS_MS[unit ?? ""] ?? 0),
    0,
  );
}
