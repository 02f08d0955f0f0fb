/**
 * Crate rows: a crate imports only crates in rows above its own, and the few libraries that stand
 * for a boundary (sockets, SQL, the object store) only where the design puts them.
 */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROWS: Record<string, number> = {
  "millrace-budget": 0,
  "millrace-model": 0,
  "millrace-properties": 0,
  "millrace-tasks": 0,
  "millrace-time": 0,
  "millrace-ec2": 1,
  "millrace-record": 1,
  "millrace-limiter": 1,
  "millrace-purgatory": 1,
  "millrace-wire": 2,
  "millrace-objects": 2,
  "millrace-meta": 2,
  "millrace-client": 3,
  "millrace-wal": 3,
  "millrace-blockcache": 3,
  "millrace-perf": 4,
  "millrace-records": 4,
  "millrace-stream": 4,
  "millrace-log": 5,
  "millrace-security": 5,
  "millrace-cluster": 6,
  "millrace-coordinator": 6,
  "millrace-share": 6,
  "millrace-api": 7,
  "millrace-net": 7,
  "millrace-broker": 8,
  millrace: 9,
};

/** Development crates: any crate's tests may use them, no crate's code may. */
const DEVELOPMENT = new Set(["millrace-testkit", "millrace-bench", "millrace-sim"]);

/** The client library serves users' programs: it must not drag a server crate along. */
const CLIENT_MAY = new Set(["millrace-model", "millrace-time", "millrace-record", "millrace-wire"]);

/** Libraries that are a boundary, and the only crates that may name them. */
const BOUNDARIES: Record<string, string[]> = {
  // EC2 is asked with the credentials and the signature that reach the bucket.
  object_store: ["millrace-objects", "millrace-ec2"],
  // The test kit makes the databases of tests that need a PostgreSQL server.
  sqlx: ["millrace-meta", "millrace-testkit"],
  "io-uring": ["millrace-wal"],
  "kafka-protocol": ["millrace-wire", "millrace-record", "millrace-testkit"],
  axum: ["millrace-broker"],
  socket2: ["millrace-net", "millrace-client"],
};

interface Package {
  name: string;
  dependencies: { name: string; kind: string | null }[];
}

const root = fileURLToPath(new URL("../../dataplane", import.meta.url));
const metadata = execFileSync(
  "cargo",
  ["metadata", "--no-deps", "--format-version", "1", "--locked"],
  { cwd: root, maxBuffer: 64 << 20 },
);
const { packages } = JSON.parse(metadata.toString()) as { packages: Package[] };

const violations = packages.flatMap(({ name, dependencies }) =>
  dependencies
    .filter(({ kind }) => kind !== "dev")
    .flatMap(({ name: dependency }) => check(name, dependency)),
);
for (const { name } of packages) {
  if (!(name in ROWS) && !DEVELOPMENT.has(name)) {
    violations.push(`${name}: has no row; give it one here and in ARCHITECTURE.md`);
  }
}

for (const violation of violations) console.error(violation);
if (violations.length > 0) process.exit(1);
console.log(`crate rows: ${packages.length} crates in order`);

function check(name: string, dependency: string): string[] {
  const keepers = BOUNDARIES[dependency];
  if (keepers && !keepers.includes(name)) {
    return [`${name}: only ${keepers.join(", ")} may depend on ${dependency}`];
  }
  if (DEVELOPMENT.has(name) || !dependency.startsWith("millrace")) return [];
  if (DEVELOPMENT.has(dependency)) return [`${name}: ${dependency} is for tests only`];
  if (name === "millrace-client") {
    return CLIENT_MAY.has(dependency) ? [] : [`${name}: may not import ${dependency}`];
  }
  const own = ROWS[name] ?? Number.NEGATIVE_INFINITY;
  const other = ROWS[dependency] ?? Number.POSITIVE_INFINITY;
  return other < own ? [] : [`${name} (row ${own}): may not import ${dependency} (row ${other})`];
}
