import { describe, expect, test } from "vitest";
import { clusterStack, resource, SPEC, statements } from "../../test/stack-fixture.ts";
import { clusterNames } from "../stacks/cluster/names.ts";
import { isAllowed } from "./evaluation.ts";
import { CLUSTER_GRANTS } from "./grants.ts";
import { permissionsBoundary } from "./permissions-boundary.ts";
import { provisionerPolicies } from "./provisioner-policies.ts";

describe("what the provisioner may do follows from the stack", () => {
  test("every resource type of the stack is in the table, and none that no stack has", () => {
    const { vpcId: _, ...brought } = SPEC.network;
    const inStacks = new Set(
      [clusterStack(), clusterStack({ network: { ...brought, vpcId: undefined } })].flatMap(
        (stack) => Object.keys(stack.resource),
      ),
    );
    expect([...inStacks].sort()).toEqual(Object.keys(CLUSTER_GRANTS).sort());
  });
});

test("each action that makes something by tag names what it makes", () => {
  const text = JSON.stringify(
    provisionerPolicies({
      accountId: SPEC.accountId,
      permissionsBoundaryArn: "arn",
      linkDomain: SPEC.controlLink.domain,
    }),
  );
  expect(text).not.toContain("undefined");
});

describe("the boundary of a cluster's roles", () => {
  const names = clusterNames(SPEC.clusterId, SPEC.accountId);
  const boundary = permissionsBoundary({
    accountId: SPEC.accountId,
    artefactBucket: SPEC.artefact.bucket,
  });
  const key = `arn:aws:kms:${SPEC.region}:${SPEC.accountId}:key/1`;
  const policy = String(resource(clusterStack(), "aws_iam_role_policy", "role-1_policy").policy);
  const role = statements({ policy: policy.replaceAll(/\$\{[^}]*\}/g, key) });
  const context = {
    "aws:ResourceTag/millrace:managed-by": "millrace",
    "aws:ResourceTag/millrace:cluster": SPEC.clusterId,
    "aws:ResourceTag/millrace:slot": "1",
    "aws:ResourceTag/millrace:volume": "wal",
    "cloudwatch:namespace": "Millrace",
    "kms:ViaService": `ec2.${SPEC.region}.amazonaws.com`,
    "kms:GrantIsForAWSResource": "true",
  };

  const requests = role.flatMap(({ Sid, Action, Resource }) =>
    [Action].flat().flatMap((action) =>
      [Resource].flat().map((pattern) => ({
        name: `${Sid}: ${action} on ${pattern}`,
        action,
        resource: pattern,
      })),
    ),
  );

  test.each(requests)("leaves a slot what it needs: $name", ({ action, resource: target }) => {
    const identity = [{ Version: "2012-10-17", Statement: role } as never];
    expect(isAllowed({ identity }, { action, resource: target, context })).toBe(true);
    expect(isAllowed({ identity, boundary }, { action, resource: target, context })).toBe(true);
  });

  test("ends where another bucket, role or machine begins", () => {
    const identity = [
      {
        Version: "2012-10-17",
        Statement: [{ Effect: "Allow", Action: "*", Resource: "*" }],
      } as never,
    ];
    const refused = [
      { action: "s3:GetObject", resource: "arn:aws:s3:::backups/1" },
      {
        action: "s3:GetObject",
        resource: `arn:aws:s3:::${SPEC.artefact.bucket}/control-plane/terraform.tfstate`,
      },
      { action: "s3:DeleteBucket", resource: `arn:aws:s3:::${names.bucket}` },
      { action: "s3:PutObject", resource: `arn:aws:s3:::${SPEC.artefact.bucket}/broker/x` },
      { action: "iam:CreateUser", resource: "*" },
      { action: "sts:AssumeRole", resource: "arn:aws:iam::1:role/admin" },
      { action: "ec2:TerminateInstances", resource: "arn:aws:ec2:eu-central-1:1:instance/i-1" },
      { action: "ec2:DeleteVolume", resource: "arn:aws:ec2:eu-central-1:1:volume/vol-1" },
    ];
    for (const request of refused) {
      expect(isAllowed({ identity, boundary }, { ...request, context }), request.action).toBe(
        false,
      );
    }
  });
});
