import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { openApiDocument } from "@millrace/router";
import { Hono } from "hono";
import type { ApiEnv } from "./request-context.ts";

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Millrace API reference</title>
    <link rel="icon" href="data:,">
  </head>
  <body>
    <div id="app"></div>
    <script src="/docs/scalar.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
`;

/** The page asks nobody but this server for anything. */
const START = `Scalar.createApiReference("#app", {
  url: "/v1/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
});
`;

/** The reference page styles itself from script, hence the one unsafe word. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "report-uri /api/csp-reports",
].join("; ");

/** The OpenAPI document, and a reference page that is served whole from this machine. */
export function docsRoutes(apiUrl: string): Hono<ApiEnv> {
  const document = JSON.stringify(openApiDocument(apiUrl));
  let bundle: Promise<string> | undefined;
  return new Hono<ApiEnv>()
    .get("/v1/openapi.json", (c) => c.body(document, 200, { "Content-Type": "application/json" }))
    .get("/docs", (c) => c.html(PAGE, 200, { "Content-Security-Policy": PAGE_POLICY }))
    .get("/docs/start.js", (c) => c.body(START, 200, { "Content-Type": "text/javascript" }))
    .get("/docs/scalar.js", async (c) => {
      bundle ??= readFile(scalarBundle(), "utf8");
      const headers = { "Content-Type": "text/javascript", "Cache-Control": "max-age=86400" };
      return c.body(await bundle, 200, headers);
    });
}

function scalarBundle(): string {
  const entry = fileURLToPath(import.meta.resolve("@scalar/api-reference"));
  return join(dirname(entry), "browser", "standalone.js");
}
