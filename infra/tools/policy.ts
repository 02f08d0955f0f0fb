/**
 * `npm run aws:policy -- --account 123456789012 …`: prints what the product may do in an account of
 * AWS, as JSON by name: the provisioner's policies, its trust policy and boundary, the boundary of
 * clusters' roles and, for a cluster's id, the policy of its sessions. Asks AWS nothing.
 */
import { parseArgs } from "node:util";
import {
  permissionsBoundary,
  provisionerBoundary,
  provisionerPolicies,
  sessionPolicy,
  trustPolicy,
} from "../src/iam/index.ts";
import { clusterNames } from "../src/stacks/cluster/names.ts";

const USAGE = `npm run aws:policy -- --account <12 digits>
  --link-domain <domain of the gateways' names: link.<domain of the control plane>>
  [--artefact-bucket <bucket with broker builds>]
  [--boundary <ARN that the boundary of clusters' roles will have>]
  [--principal <ARN of a role that takes the provisioner's; repeat>]
  [--external-id <id that Millrace gave this organization>]
  [--cluster <cluster id: prints the policy of its sessions as well>]
  [--organization <id of the cluster's organization>]
  [--only <name of one policy>]`;

const { values: given } = parseArgs({
  options: {
    account: { type: "string" },
    "link-domain": { type: "string" },
    "artefact-bucket": { type: "string" },
    boundary: { type: "string" },
    principal: { type: "string", multiple: true },
    "external-id": { type: "string" },
    cluster: { type: "string" },
    organization: { type: "string" },
    only: { type: "string" },
    help: { type: "boolean" },
  },
});
if (given.help === true) {
  console.log(USAGE);
  process.exit(0);
}
const accountId = given.account ?? "";
if (!/^\d{12}$/.test(accountId)) fail(`--account: twelve digits\n\n${USAGE}`);
const linkDomain = given["link-domain"] ?? "";
if (linkDomain === "") fail(`--link-domain: as link.millrace.example.com\n\n${USAGE}`);

const permissionsBoundaryArn =
  given.boundary ?? `arn:aws:iam::${accountId}:policy/millrace/mr-main-cluster-boundary`;
const artefactBucket = given["artefact-bucket"] ?? `mr-main-artefacts-${accountId}-*`;
const props = { accountId, permissionsBoundaryArn, linkDomain };
const policies: Record<string, unknown> = {
  ...Object.fromEntries(
    provisionerPolicies(props).map(({ name, document }) => [`provisioner-${name}`, document]),
  ),
  "provisioner-boundary": provisionerBoundary(props),
  "cluster-boundary": permissionsBoundary({ accountId, artefactBucket }),
};
if (given.principal !== undefined) {
  const externalId = given["external-id"];
  if (externalId === undefined)
    fail("--external-id: give the id that Millrace showed, with --principal");
  policies["provisioner-trust"] = trustPolicy({ principalArns: given.principal, externalId });
}
if (given.cluster !== undefined) {
  const clusterId = given.cluster;
  const organizationId = given.organization;
  if (organizationId === undefined) {
    fail("--organization: give the id of the organization whose cluster it is, with --cluster");
  }
  const { prefix } = clusterNames(clusterId, accountId);
  policies.session = JSON.parse(sessionPolicy({ clusterId, organizationId, prefix }));
}
if (given.only !== undefined && !(given.only in policies)) {
  fail(`--only: one of ${Object.keys(policies).join(", ")}`);
}
console.log(JSON.stringify(given.only === undefined ? policies : policies[given.only], null, 2));

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
