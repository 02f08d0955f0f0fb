import { join } from "node:path";
import type { NextConfig } from "next";

const root = join(import.meta.dirname, "../..");

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
  // The content security policy has a nonce of its own for each page: src/proxy.ts.
  headers: async () => [
    {
      source: "/:path*",
      headers: [
        { key: "Cross-Origin-Opener-Policy", value: "same-origin" },
        { key: "X-Content-Type-Options", value: "nosniff" },
        { key: "Referrer-Policy", value: "same-origin" },
      ],
    },
  ],
};

export default config;
