/**
 * `npm run check:monitoring`: Prometheus' own promtool checks the alert rules of `infra/monitoring`, runs their unit
 * tests, parses every query of the dashboard, and computes what the unit tests of our own PromQL expect. Installs promtool
 * with Go; ends with 1 where one is wrong.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import { root } from "./settings.ts";

/** Releases of Prometheus 3.x have the Go module version 0.3xx: this is 3.16.0. */
const VERSION = "v0.316.0";
const PROMTOOL = `github.com/prometheus/prometheus/cmd/promtool@${VERSION}`;
/** Downloads the modules and compiles them: three minutes on two cores. */
const INSTALL_SECONDS_MAX = 1_200;
const CHECK_MS_MAX = 60_000;

const folder = join(root, "infra/monitoring");
const promtool = await installPromtool();
check("check", "rules", "alerts.yaml");
check("check", "config", "--syntax-only", "prometheus.yml");
check("test", "rules", "alerts.test.yaml");
// JSON is YAML.
check("test", "rules", join(root, "packages/metrics/test/promql-cases.json"));
const queries = queriesOf(JSON.parse(readFileSync(join(folder, "dashboard.json"), "utf8")));
for (const query of queries) parse(query);
console.log(`dashboard.json: ${queries.length} queries parsed`);

/** The program's path; installed unless this version is there. */
async function installPromtool(): Promise<string> {
  const bin = join(root, ".millrace-tools", `prometheus-${VERSION}`);
  const program = join(bin, "promtool");
  if (existsSync(program)) return program;
  // Without the clients of service discovery, which it does not need and which take most of the time.
  const { code, output } = await run("go", ["install", "-tags", "remove_all_sd", PROMTOOL], {
    cwd: root,
    env: { ...process.env, GOBIN: bin, GOFLAGS: "-buildvcs=false" },
    title: "installing promtool",
    secondsMax: INSTALL_SECONDS_MAX,
  });
  if (code !== 0) throw new Error(`promtool cannot be installed; Go 1.26 is needed:\n${output}`);
  return program;
}

/** Throws where promtool finds a mistake; what it prints is shown. */
function check(...args: string[]): void {
  execFileSync(promtool, args, { cwd: folder, stdio: "inherit", timeout: CHECK_MS_MAX });
}

/** Throws with promtool's message for a query that is wrong. */
function parse(query: string): void {
  const args = ["--experimental", "promql", "format", query];
  execFileSync(promtool, args, { stdio: ["ignore", "ignore", "inherit"], timeout: CHECK_MS_MAX });
}

/** Every query, with values in the place of Grafana's variables. */
function queriesOf(dashboard: Dashboard): string[] {
  const queries = dashboard.panels.flatMap((panel) => panel.targets.map(({ expr }) => expr));
  if (queries.length === 0) throw new Error("the dashboard has no query");
  return queries.map((query) =>
    query.replaceAll("$__rate_interval", "1m").replaceAll("$cluster", "clu_a"),
  );
}

interface Dashboard {
  readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
}
