/**
 * `npm run sbom`: what the product is made of, as CycloneDX 1.6, one file each for npm, Cargo and Go, from their
 * lockfiles. cdxgen (OWASP) is fetched when it is needed: nothing else uses its hundred packages.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import { root } from "./settings.ts";

const CDXGEN = "@cyclonedx/cdxgen@12.8.4";
const SECONDS_MAX = 300;
const FOLDERS = { npm: ".", cargo: "dataplane", go: "apps/terraform-provider" } as const;

export interface Component {
  readonly name: string;
  readonly version?: string;
  /** https://github.com/package-url/purl-spec */
  readonly purl?: string;
}

/** Writes all three and returns their components. Throws where one cannot be made, or is empty. */
export async function writeSboms(): Promise<Component[]> {
  const out = join(root, "dist/sbom");
  mkdirSync(out, { recursive: true });
  const found: Component[] = [];
  for (const [type, folder] of Object.entries(FOLDERS)) {
    const file = join(out, `${type}.cdx.json`);
    const { code, output } = await run(
      "npm",
      [
        ...["exec", "--yes", `--package=${CDXGEN}`, "--", "cdxgen", "-t", type, "-o", file],
        ...["--no-recurse", "--no-install-deps", "--spec-version", "1.6", folder],
      ],
      {
        cwd: root,
        env: { ...process.env, CDXGEN_TELEMETRY: "false" },
        title: `SBOM of ${type}`,
        secondsMax: SECONDS_MAX,
      },
    );
    if (code !== 0) throw new Error(`cdxgen failed for ${type}:\n${output.slice(-2_000)}`);
    const { components } = JSON.parse(readFileSync(file, "utf8")) as { components: Component[] };
    if (components.length === 0) throw new Error(`${file} names no component`);
    console.log(`${file}: ${components.length} components`);
    found.push(...components);
  }
  return found;
}

if (import.meta.main) await writeSboms();
