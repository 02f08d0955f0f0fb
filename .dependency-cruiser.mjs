/**
 * The import rules of ARCHITECTURE.md for the TypeScript packages: a package may import what is to
 * its right and nothing else. Crate rows are checked by .ci/gates/crates.ts.
 */
const arrows = {
  "packages/domain": [],
  "packages/contract": ["domain"],
  "packages/db": ["domain"],
  "packages/auth": ["domain", "db"],
  "packages/metrics": ["domain", "db"],
  "packages/broker-admin": ["domain"],
  "packages/provisioner": ["domain", "broker-admin", "infra"],
  "packages/core": ["domain", "db", "auth", "metrics", "broker-admin", "provisioner"],
  "packages/router": ["domain", "contract", "core", "auth"],
  "packages/launcher": [],
  "packages/testkit": ["domain", "db", "launcher"],
  "apps/api": ["domain", "contract", "router", "auth", "db", "core", "provisioner"],
  "apps/gateway": ["domain", "db"],
  "apps/worker": ["domain", "core", "provisioner", "metrics", "broker-admin", "db"],
  "apps/console": ["domain", "contract", "router"],
  infra: ["domain"],
  e2e: ["launcher"],
};

const packages = "^(packages|apps)/[^/]+/|^infra/|^e2e/";
const production = (name) => `^${name}/(?!test/|.*[.]test[.]ts$)`;

const arrowRules = Object.entries(arrows).map(([name, allowed]) => ({
  name: `arrows-${name.replace("/", "-")}`,
  comment: `${name} may import ${allowed.join(", ") || "no other package"}`,
  severity: "error",
  from: { path: production(name) },
  to: {
    path: packages,
    pathNot: [`^${name}/`, ...allowed.map((other) => `^(packages/)?${other}/`)],
  },
}));

export default {
  forbidden: [
    ...arrowRules,
    {
      name: "engine-knows-no-use-case",
      comment: "in packages/core use cases import the operation engine, never the other way round",
      severity: "error",
      from: { path: "^packages/core/src/engine/", pathNot: "[.]test[.]ts$" },
      to: { path: "^packages/core/src/(?!engine/)" },
    },
    {
      name: "engine-has-one-entrance",
      comment: "the rest of packages/core imports the engine through its index.ts",
      severity: "error",
      from: { path: "^packages/core/src/(?!engine/)" },
      to: { path: "^packages/core/src/engine/(?!index[.]ts$)" },
    },
    {
      name: "only-db-imports-prisma",
      severity: "error",
      from: { pathNot: "^packages/db/" },
      to: { path: "node_modules/(@prisma|prisma)/" },
    },
    {
      name: "router-in-the-console-is-types-only",
      severity: "error",
      from: { path: "^apps/console/" },
      to: { path: "^packages/router/", dependencyTypesNot: ["type-only"] },
    },
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    {
      name: "resolvable",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules|/generated/" },
    exclude: { path: "next-env[.]d[.]ts|[.]next|/dist/|/target/|^e2e/.artefacts" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.base.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default", "types"],
      extensions: [".ts", ".tsx", ".mjs", ".js", ".json"],
    },
  },
};
