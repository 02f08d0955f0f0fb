import { join } from "node:path";
import type { NextConfig } from "next";

const root = join(import.meta.dirname, "../..");

/** Pages may load nothing from elsewhere; only the chart and component libraries style inline. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'self'",
  "form-action 'self'",
].join("; ");

const config: NextConfig = {
  output: "standalone",
  outputFileTracingRoot: root,
  turbopack: { root },
  transpilePackages: ["@millrace/contract", "@millrace/domain"],
  experimental: {
    optimizePackageImports: ["@mantine/core", "@mantine/hooks", "@tabler/icons-react"],
  },
  poweredByHeader: false,
  // Event streams pass: Next flushes after each chunk, and tRPC's carry `no-transform`.
  compress: true,
  typescript: { ignoreBuildErrors: true },
  // Browsers that have not seen the page's link to its icon yet ask for this one.
  rewrites: async () => [{ source: "/favicon.ico", destination: "/icon.svg" }],
  headers: async () => [
    {
      source: "/:path*",
      headers: [
        { key: "Content-Security-Policy", value: CONTENT_SECURITY_POLICY },
        { key: "X-Content-Type-Options", value: "nosniff" },
        { key: "Referrer-Policy", value: "same-origin" },
      ],
    },
  ],
};

export default config;
