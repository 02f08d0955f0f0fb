import { TokenBuckets } from "@millrace/domain";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { Logger } from "pino";
import { z } from "zod";
import type { ApiEnv } from "./request-context.ts";

const BODY_BYTES_MAX = 16 * 1024;
const REPORTS_MAX = 10;
const TEXT_LENGTH_MAX = 200;
/** Anybody can send reports, and each is a line of the log. */
const LINES = { capacity: 60, perSecond: 0.2 };

const text = z
  .string()
  .transform((value) => withoutQuery(value).slice(0, TEXT_LENGTH_MAX))
  .optional()
  .catch(undefined);
const line = z.number().int().optional().catch(undefined);

/** What `report-uri` sends (CSP Level 2). */
const Legacy = z.object({
  "csp-report": z.object({
    "document-uri": text,
    "blocked-uri": text,
    "violated-directive": text,
    "source-file": text,
    "line-number": line,
  }),
});
/** What `report-to` sends (Reporting API). */
const Modern = z.array(
  z.object({
    type: z.literal("csp-violation"),
    body: z.object({
      documentURL: text,
      blockedURL: text,
      effectiveDirective: text,
      sourceFile: text,
      lineNumber: line,
    }),
  }),
);

/** Logs what browsers report about scripts and styles that a page's policy has stopped. */
export function cspReports(log: Logger): Hono<ApiEnv> {
  const lines = new TokenBuckets(LINES, 1);
  return new Hono<ApiEnv>().post(
    "/api/csp-reports",
    bodyLimit({ maxSize: BODY_BYTES_MAX, onError: (c) => c.body(null, 413) }),
    async (c) => {
      for (const violation of violationsOf(await c.req.text())) {
        if (!lines.take("reports").taken) break;
        const fields = { requestId: c.get("requestId"), violation };
        log.warn(fields, "a page violated its content security policy");
      }
      return c.body(null, 204);
    },
  );
}

function violationsOf(body: string): object[] {
  const sent = parsed(body);
  const legacy = Legacy.safeParse(sent).data?.["csp-report"];
  if (legacy) {
    return [
      {
        document: legacy["document-uri"],
        blocked: legacy["blocked-uri"],
        directive: legacy["violated-directive"],
        source: legacy["source-file"],
        line: legacy["line-number"],
      },
    ];
  }
  const modern = Modern.safeParse(sent).data ?? [];
  return modern.slice(0, REPORTS_MAX).map(({ body: report }) => ({
    document: report.documentURL,
    blocked: report.blockedURL,
    directive: report.effectiveDirective,
    source: report.sourceFile,
    line: report.lineNumber,
  }));
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** Queries can hold secrets: invitations, codes of single sign-on. */
function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, "");
}
