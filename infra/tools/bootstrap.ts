/**
 * `npm run aws:bootstrap`: from an empty account to a control plane. The order matters: keys, bucket
 * and repositories first, so that images and broker builds have a place; the services last. Each
 * step can be repeated, and what is there already is left as it is.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { checkPolicies } from "../src/policy/index.ts";
import {
  publicIngress,
  SECRETS_VERSION_OUTPUT,
  synthesizeControlPlane,
} from "../src/stacks/control-plane/control-plane-stack.ts";
import { controlPlaneNames } from "../src/stacks/control-plane/names.ts";
import {
  type ControlPlaneSpec,
  ControlPlaneSpecError,
  type ControlPlaneStage,
} from "../src/stacks/control-plane/spec.ts";
import { STATE_FILE, type SynthRun } from "../src/synth.ts";
import { brokerBuild } from "./bootstrap/broker-build.ts";
import { keepingEarlierBuilds } from "./bootstrap/earlier-builds.ts";
import {
  forgetInstallationSecrets,
  installationSecrets,
} from "./bootstrap/installation-secrets.ts";
import { type BootstrapRequest, readRequest, USAGE } from "./bootstrap/plan-request.ts";
import { Refused } from "./bootstrap/refused.ts";
import { secretsVersion } from "./bootstrap/secrets-version.ts";
import { withBucketBackend } from "./bootstrap/state-backend.ts";
import { TerraformRun } from "./bootstrap/terraform-run.ts";

/** Says that the state has moved into the bucket. */
const MOVED = "state-is-in-the-bucket";

try {
  if (process.argv.includes("--help")) console.log(USAGE);
  else await bootstrap(readRequest(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof Refused || error instanceof ControlPlaneSpecError)) throw error;
  console.error(`${error.message}\n\nnpm run aws:bootstrap -- --help lists all options`);
  process.exitCode = 2;
}

async function bootstrap(request: BootstrapRequest): Promise<void> {
  if (!request.apply) return rehearse(request);
  const build = await brokerBuild(request.brokerPath);
  const foundation: ControlPlaneSpec = {
    ...request.spec,
    brokerBuild: build,
    stage: "foundation",
    secretsVersion: 1,
  };
  const run = new TerraformRun(request.stateDir, installationSecrets(request.stateDir));
  await applyFoundation(request, foundation, run);
  if (foundation.images === undefined) return tellImages(request);
  const version = secretsVersion(
    request.secretsVersion,
    await presentSecretsVersion(request, foundation, run),
  );
  const whole: ControlPlaneSpec = { ...foundation, stage: "complete", secretsVersion: version };
  await applyStage(request, whole, run, true);
  forgetInstallationSecrets(request.stateDir);
  await tellEnd(request, run);
}

/** As the state in the bucket has it; undefined before the first apply of the whole. */
async function presentSecretsVersion(
  request: BootstrapRequest,
  foundation: ControlPlaneSpec,
  run: TerraformRun,
): Promise<number | undefined> {
  run.write(withBucketBackend(synthesizeControlPlane(foundation, runOf(request)), request));
  await run.capture("init", "-input=false", "-no-color", "-reconfigure");
  const outputs = JSON.parse(await run.capture("output", "-json"));
  return outputs[SECRETS_VERSION_OUTPUT]?.value;
}

/** What would be made, from the stacks themselves; no account is asked. */
function rehearse(request: BootstrapRequest): void {
  const stages: [ControlPlaneStage, string][] = [
    ["foundation", "1. keys, bucket for broker builds and state, image repositories, boundaries"],
    ["complete", "3. network, PostgreSQL, secrets, services, load balancer, provisioner's role"],
  ];
  const digest = "0".repeat(64);
  const image = `image@sha256:${digest}`;
  for (const [stage, title] of stages) {
    const text = synthesizeControlPlane(
      {
        ...request.spec,
        stage,
        // The installation may exist, so any version can be the next one.
        secretsVersion: request.secretsVersion ?? 1,
        images: request.spec.images ?? { api: image, console: image, worker: image },
        certificateArn: request.spec.certificateArn || "arn:aws:acm:yours",
        amiId: request.spec.amiId || "ami-00000000000000000",
        allowedCidrs:
          request.spec.allowedCidrs.length === 0 ? ["10.0.0.0/8"] : request.spec.allowedCidrs,
        brokerBuild: { path: request.brokerPath, sha256: digest },
      },
      { providerVersion: request.providerVersion, offline: true },
    );
    console.log(`${title}\n${summaryOf(text)}\n`);
    if (stage === "foundation") {
      console.log("2. you push three images, which are then named by their digests\n");
    }
  }
  console.log("Nothing was created. Add --apply to create it.");
}

function summaryOf(stack: string): string {
  const { resource } = JSON.parse(stack) as { resource: Record<string, object> };
  return Object.entries(resource)
    .map(([type, byName]) => `   ${String(Object.keys(byName).length).padStart(3)}  ${type}`)
    .join("\n");
}

async function applyFoundation(
  request: BootstrapRequest,
  spec: ControlPlaneSpec,
  run: TerraformRun,
): Promise<void> {
  const marker = join(request.stateDir, MOVED);
  if (existsSync(marker)) run.putAside(STATE_FILE);
  // The whole stack contains its foundation: where it is there, only the build may be new.
  if (request.existing || existsSync(marker)) {
    if (spec.images === undefined) await applyNothingNew(request, spec, run);
    return;
  }
  await applyStage(request, spec, run, false);
  console.log("moving the state into the installation's bucket …");
  run.write(withBucketBackend(synthesizeControlPlane(spec, runOf(request)), request));
  await run.capture("init", "-input=false", "-no-color", "-migrate-state", "-force-copy");
  writeFileSync(marker, "");
  run.putAside(STATE_FILE);
}

/** A foundation again: only while nothing more is there, since a plan of it would take that away. */
async function applyNothingNew(
  request: BootstrapRequest,
  spec: ControlPlaneSpec,
  run: TerraformRun,
): Promise<void> {
  run.write(withBucketBackend(synthesizeControlPlane(spec, runOf(request)), request));
  await run.capture("init", "-input=false", "-no-color", "-reconfigure");
  const state = await run.capture("state", "list");
  if (state.includes("aws_vpc.")) {
    throw new Refused("the installation is complete: pass its --image options to change it");
  }
  await applyStage(request, spec, run, true);
}

async function applyStage(
  request: BootstrapRequest,
  spec: ControlPlaneSpec,
  run: TerraformRun,
  inBucket: boolean,
): Promise<void> {
  const text = synthesizeControlPlane(spec, runOf(request));
  const context = { kind: "control-plane", publicIngress: publicIngress(spec) } as const;
  refuseFindings(synthesizeControlPlane(spec, { ...runOf(request), without: [] }), context);
  const placed = inBucket ? withBucketBackend(text, request) : text;
  run.write(placed);
  await run.capture("init", "-input=false", "-no-color", "-reconfigure");
  run.write(keepingEarlierBuilds(placed, await run.capture("show", "-json")));
  await run.show("plan", "-input=false", "-out=bootstrap.plan");
  if (request.without.length === 0) {
    refuseFindings(await run.capture("show", "-json", "bootstrap.plan"), context);
  }
  await confirmed(request, spec.stage);
  await run.show("apply", "-input=false", "bootstrap.plan");
}

function runOf(request: BootstrapRequest): SynthRun {
  return {
    providerVersion: request.providerVersion,
    ...(request.endpoint === undefined ? {} : { endpoint: request.endpoint }),
    without: request.without,
  };
}

function refuseFindings(document: string, context: Parameters<typeof checkPolicies>[1]): void {
  const findings = checkPolicies(document, context);
  if (findings.length === 0) return;
  throw new Refused(
    findings.map(({ rule, address, message }) => `${rule}: ${address}: ${message}`).join("\n"),
  );
}

async function confirmed(request: BootstrapRequest, stage: string): Promise<void> {
  if (request.yes) return;
  const ask = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await ask.question(
      `Apply the ${stage} in ${request.spec.region} of ${request.spec.accountId}? Type "yes" to continue: `,
    );
    if (answer.trim() !== "yes") throw new Refused("nothing was applied");
  } finally {
    ask.close();
  }
}

function tellImages({ spec }: BootstrapRequest): void {
  const { prefix } = controlPlaneNames(spec);
  const registry = `${spec.accountId}.dkr.ecr.${spec.region}.amazonaws.com`;
  const lines = ["api", "console", "worker"].map(
    (name) =>
      `  docker buildx build --platform linux/arm64 -f infra/images/Dockerfile --target ${name} -t ${registry}/${prefix}/${name}:$(git rev-parse --short=12 HEAD) --push .`,
  );
  console.log(`
The foundation is there. Commit what you changed, then push the images. Their tags are immutable, so each commit
has its own:

  aws ecr get-login-password --region ${spec.region} | docker login --username AWS --password-stdin ${registry}
${lines.join("\n")}

Then run this again with --image api=${registry}/${prefix}/api@sha256:… and the same for console
and worker, with --domain, --certificate, --allow and --ami.`);
}

async function tellEnd({ spec }: BootstrapRequest, run: TerraformRun): Promise<void> {
  const outputs = JSON.parse(await run.capture("output", "-json")) as Record<
    string,
    { value: string }
  >;
  console.log(`
The control plane is there.

  1. make ${spec.domainName} an alias (CNAME) of ${outputs.front_door?.value}
  2. sign in at https://${spec.domainName} with the credentials in
     aws secretsmanager get-secret-value --region ${spec.region} --secret-id ${outputs.first_account?.value}
     then change the password and overwrite that secret's value; do not delete the secret
     (infra/DEPLOY.md, the end of part c)`);
}
