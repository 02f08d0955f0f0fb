import {
  ALARMS_PER_CLUSTER,
  ALARMS_PER_SLOT,
  awsSizing,
  baselinesOf,
  INTERFACE_ENDPOINT_SERVICES,
  ZONES_PER_CLUSTER,
} from "@millrace/domain";
import { describe, expect, test } from "vitest";
import {
  addresses,
  clusterStack,
  OFFLINE,
  reference,
  resource,
  SPEC,
  snapshotText,
  statements,
} from "../../../test/stack-fixture.ts";
import { checkPolicies } from "../../policy/index.ts";
import { isTaggable } from "../../policy/taggable.ts";
import { synthesizeCluster } from "./cluster-stack.ts";
import { clusterNames } from "./names.ts";

const NAMES = clusterNames(SPEC.clusterId, SPEC.accountId);

test("the stack of three slots over three zones is what the snapshot shows", async () => {
  await expect(snapshotText(clusterStack())).toMatchFileSnapshot("cluster-stack.snap");
});

test("the stack of one slot is what the snapshot shows", async () => {
  await expect(snapshotText(clusterStack({ slots: 1 }))).toMatchFileSnapshot(
    "cluster-stack-of-one.snap",
  );
});

test("the same spec always gives the same text, and it asks AWS nothing", () => {
  expect(synthesizeCluster(SPEC, OFFLINE)).toBe(synthesizeCluster(SPEC, OFFLINE));
  expect(clusterStack().data).toBeUndefined();
});

test("nothing in the stack names the machine that made it", () => {
  expect(synthesizeCluster(SPEC, OFFLINE)).not.toMatch(/node_modules|\/tmp\/|file:/);
});

test("everything taggable carries its owner and its own address", () => {
  const stack = clusterStack();
  const untagged = addresses(stack).filter((address) => {
    const [type = "", name = ""] = address.split(".");
    const tags = stack.resource[type]?.[name]?.tags as Record<string, string> | undefined;
    if (!isTaggable(type)) return false;
    return (
      tags?.["millrace:address"] !== address ||
      tags["millrace:tenant"] !== SPEC.organizationId ||
      tags["millrace:cluster"] !== SPEC.clusterId ||
      tags["millrace:environment"] !== SPEC.environmentId ||
      tags["millrace:managed-by"] !== "millrace" ||
      tags.team !== "orders"
    );
  });
  expect(untagged).toEqual([]);
});

test("a group has its address, its instances have not", () => {
  const tags = resource(clusterStack(), "aws_autoscaling_group", "slot-1_group").tag as {
    key: string;
    value: string;
    propagate_at_launch: boolean;
  }[];
  const propagated = tags.filter((tag) => tag.propagate_at_launch).map(({ key }) => key);
  expect(propagated).toContain("millrace:cluster");
  expect(propagated).not.toContain("millrace:address");
  expect(tags).toContainEqual({
    key: "millrace:address",
    value: "aws_autoscaling_group.slot-1_group",
    propagate_at_launch: false,
  });
});

test("a label cannot stand above what the sweep looks for, nor hold what a tag cannot", () => {
  const labels = { "millrace:cluster": "clu_other", note: "a,b (c)" };
  const { tags } = resource(clusterStack({ labels }), "aws_s3_bucket") as {
    tags: Record<string, string>;
  };
  expect(tags["millrace:cluster"]).toBe(SPEC.clusterId);
  expect(tags.note).toBe("a_b _c_");
});

test("volume, instance and subnet of a slot stand in the slot's zone", () => {
  const stack = clusterStack({ slots: 5 });
  SPEC.zones.concat(SPEC.zones.slice(0, 2)).forEach((zone, slot) => {
    const subnet = `network_subnet-${slot % 3}`;
    expect(resource(stack, "aws_ebs_volume", `wal-${slot}_volume`).availability_zone).toBe(zone);
    expect(resource(stack, "aws_subnet", subnet).availability_zone).toBe(zone);
    expect(
      resource(stack, "aws_autoscaling_group", `slot-${slot}_group`).vpc_zone_identifier,
    ).toEqual([reference(`aws_subnet.${subnet}.id`)]);
  });
});

test("the volume and the machine set the broker's log and network", () => {
  const userDataOf = (throughputMibps: number) => {
    const stack = clusterStack({ wal: { ...SPEC.wal, throughputMibps } });
    const template = resource(stack, "aws_launch_template", "slot-0_template");
    return Buffer.from(String(template.user_data), "base64").toString();
  };
  const { instance } = awsSizing("small");
  const slow = baselinesOf({ ...SPEC.wal, throughputMibps: 40 }, instance);
  for (const script of [userDataOf(125), userDataOf(250)]) {
    expect(script).toContain(`WAL_CAPACITY_BYTES='${slow.walCapacityBytes}'`);
    expect(script).toContain("&iops=3000&");
    expect(script).toContain("s3.wal.cache.size=805306368");
  }
  const io2 = clusterStack({
    wal: { type: "io2", sizeGib: 20, iops: 200, throughputMibps: undefined },
  });
  const small = Buffer.from(
    String(resource(io2, "aws_launch_template", "slot-0_template").user_data),
    "base64",
  ).toString();
  // 200 IOPS of 256 KiB are less than the machine sustains, so the volume decides.
  expect(small).toContain(`bandwidth=${51 * 1024 ** 2}`);
  expect(userDataOf(125)).toContain(`bandwidth=${instance.ebsBaselineBytesPerSecond}`);
});

test("what a tenant asked for goes before what follows from the machine", () => {
  const properties = { "s3.network.egress.baseline.bandwidth": "12345678" };
  const template = resource(clusterStack({ properties }), "aws_launch_template", "slot-0_template");
  const script = Buffer.from(String(template.user_data), "base64").toString();
  expect(script.match(/s3\.network\.egress\.baseline\.bandwidth=\d+/g)).toEqual([
    "s3.network.egress.baseline.bandwidth=12345678",
  ]);
  expect(script).toMatch(/s3\.network\.ingress\.baseline\.bandwidth=\d+/);
});

test("no instance begins before its volume, rights, secret and ways to AWS are there", () => {
  const group = resource(clusterStack(), "aws_autoscaling_group", "slot-1_group");
  expect(group.depends_on).toEqual(
    expect.arrayContaining([
      "aws_ebs_volume.wal-1_volume",
      "aws_iam_role_policy.role-1_policy",
      "aws_secretsmanager_secret.link-credential-1_secret",
      "aws_vpc_endpoint.aws-access_s3",
      "aws_vpc_endpoint.aws-access_ec2",
      "aws_route_table_association.network_routed-1",
      "aws_vpc_security_group_egress_rule.brokers_out-s3",
      "aws_vpc_security_group_ingress_rule.endpoints_in-network",
    ]),
  );
  expect(group.depends_on).not.toContain("aws_ebs_volume.wal-0_volume");
});

describe("modes", () => {
  test("paused is the same cluster without instances and alarms", () => {
    const running = addresses(clusterStack());
    const stack = clusterStack({ mode: "paused" });
    expect(addresses(stack)).toEqual(
      running.filter((address) => !address.startsWith("aws_cloudwatch_metric_alarm.")),
    );
    const group = resource(stack, "aws_autoscaling_group", "slot-0_group");
    expect([group.min_size, group.desired_capacity, group.max_size]).toEqual([0, 0, 0]);
  });

  test("retained keeps what holds data, as it was", () => {
    const running = clusterStack();
    const retained = clusterStack({ mode: "retained" });
    const kept = ["aws_ebs_volume", "aws_kms_alias", "aws_kms_key", "aws_cloudwatch_log_group"];
    expect(new Set(Object.keys(retained.resource).filter((type) => !/_s3_/.test(type)))).toEqual(
      new Set(kept),
    );
    for (const [type, byName] of Object.entries(retained.resource)) {
      expect(byName).toEqual(running.resource[type]);
    }
    expect(retained.variable).toBeUndefined();
  });

  test("only the purge can destroy volumes, bucket and key", () => {
    const guarded = ["aws_ebs_volume", "aws_kms_key", "aws_s3_bucket"];
    const protection = (mode: "running" | "paused" | "retained" | "purge") =>
      guarded.flatMap((type) =>
        Object.values(clusterStack({ mode }).resource[type] ?? {}).map(
          ({ lifecycle }) => (lifecycle as { prevent_destroy: boolean }).prevent_destroy,
        ),
      );
    expect(protection("running")).toEqual([true, true, true, true, true]);
    expect(protection("paused")).toEqual([true, true, true, true, true]);
    expect(protection("retained")).toEqual([true, true, true, true, true]);
    expect(protection("purge")).toEqual([false, false, false, false, false]);
    expect(resource(clusterStack(), "aws_s3_bucket").force_destroy).toBe(false);
    expect(resource(clusterStack({ mode: "purge" }), "aws_s3_bucket").force_destroy).toBe(true);
  });

  test.each(["running", "paused", "retained", "purge"] as const)("%s passes the policy", (mode) => {
    const context = { kind: "cluster", purge: mode === "purge" } as const;
    expect(checkPolicies(clusterStack({ mode }), context)).toEqual([]);
  });
});

describe("who may talk to whom", () => {
  const ingress = (change: Parameters<typeof clusterStack>[0] = {}) =>
    Object.values(clusterStack(change).resource.aws_vpc_security_group_ingress_rule ?? {}).map(
      ({ cidr_ipv4, referenced_security_group_id, from_port, to_port }) =>
        `${cidr_ipv4 ?? referenced_security_group_id} ${from_port}-${to_port}`,
    );

  test("clients reach the Kafka listeners, brokers the control plane, and nobody the admin HTTP", () => {
    expect(ingress().sort()).toEqual([
      `${reference("aws_security_group.balancer_group.id")} 9092-9092`,
      `${reference("aws_security_group.brokers_group.id")} 443-443`,
      "10.40.0.0/16 443-443",
      "10.40.0.0/16 9092-9095",
      "10.8.0.0/16 9092-9095",
    ]);
  });

  test("a range that is asked for twice stands once", () => {
    const { network } = SPEC;
    const rules = ingress({
      network: { ...network, allowedCidrs: [network.cidr] },
    });
    expect(rules.filter((rule) => rule.startsWith("10.40.0.0/16 9092"))).toHaveLength(1);
  });

  test("a network of the tenant's is used as it is", () => {
    const stack = clusterStack({
      network: {
        ...SPEC.network,
        vpcId: "vpc-0123456789abcdef0",
        subnetIds: ["subnet-0a000000", "subnet-0b000000", "subnet-0c000000"],
      },
    });
    for (const type of ["aws_vpc", "aws_subnet", "aws_route_table"])
      expect(stack.resource[type]).toBeUndefined();
    expect(Object.keys(stack.resource.aws_vpc_endpoint ?? {})).toEqual(["control-link_endpoint"]);
    expect(resource(stack, "aws_lb").subnets).toHaveLength(3);
    expect(resource(stack, "aws_autoscaling_group", "slot-2_group").vpc_zone_identifier).toEqual([
      "subnet-0c000000",
    ]);
    expect(checkPolicies(stack, { kind: "cluster" })).toEqual([]);
  });
});

describe("what a slot may do", () => {
  const role = statements(resource(clusterStack(), "aws_iam_role_policy", "role-1_policy"));
  const of = (sid: string) => role.find((statement) => statement.Sid === sid);

  test("it attaches only its own volume, to its own instance", () => {
    expect(of("AttachVolume")?.Condition).toEqual({
      StringEquals: {
        "aws:ResourceTag/millrace:cluster": SPEC.clusterId,
        "aws:ResourceTag/millrace:slot": "1",
      },
    });
  });

  test("it reads and writes only its cluster's bucket, secret and log group", () => {
    expect(of("Records")?.Resource).toEqual([`arn:aws:s3:::${NAMES.bucket}/*`]);
    expect(of("LinkCredential")?.Resource).toEqual([
      `arn:aws:secretsmanager:${SPEC.region}:${SPEC.accountId}:secret:${NAMES.linkSecret(1)}-??????`,
    ]);
    expect(of("Logs")?.Resource[0]).toContain(`log-group:${NAMES.logGroup}:`);
    expect(of("Broker")?.Resource).toEqual(["arn:aws:s3:::installation-artefacts/broker/abc"]);
  });

  test("the ways to AWS let through what the role allows", () => {
    const endpoints = clusterStack().resource.aws_vpc_endpoint ?? {};
    const { "control-link_endpoint": _, ...ofAws } = endpoints;
    const services = Object.keys(ofAws).map((name) => name.replace("aws-access_", ""));
    expect(services.sort()).toEqual(["s3", ...INTERFACE_ENDPOINT_SERVICES].sort());
    const allowed = new Set(role.flatMap(({ Action }) => Action));
    for (const endpoint of Object.values(ofAws))
      for (const { Action } of statements(endpoint))
        expect([...allowed]).toEqual(expect.arrayContaining(Action));
  });
});

describe("what the estimate counts is what the stack has", () => {
  test("private zones", () => {
    const zones = Object.keys(clusterStack().resource.aws_route53_zone ?? {});
    expect(zones).toHaveLength(ZONES_PER_CLUSTER);
  });

  test("alarms", () => {
    const alarms = clusterStack().resource.aws_cloudwatch_metric_alarm ?? {};
    expect(Object.keys(alarms)).toHaveLength(ALARMS_PER_CLUSTER + 3 * ALARMS_PER_SLOT);
  });

  test("interface endpoints, in the zones that have a slot", () => {
    const endpoint = (slots: number) =>
      resource(clusterStack({ slots }), "aws_vpc_endpoint", "aws-access_ec2").subnet_ids;
    expect(endpoint(1)).toHaveLength(1);
    expect(endpoint(3)).toHaveLength(3);
    const link = resource(clusterStack({ slots: 2 }), "aws_vpc_endpoint", "control-link_endpoint");
    expect(link.subnet_ids).toHaveLength(2);
    expect(resource(clusterStack({ slots: 1 }), "aws_lb").subnets).toHaveLength(3);
  });
});

test("an endpoint service is there where it was asked for", () => {
  const service = resource(clusterStack(), "aws_vpc_endpoint_service");
  expect(service.allowed_principals).toEqual(["arn:aws:iam::444455556666:root"]);
  const network = { ...SPEC.network, access: "private", allowedPrincipals: [] } as const;
  expect(clusterStack({ network }).resource.aws_vpc_endpoint_service).toBeUndefined();
});

describe("the control link", () => {
  const subnetsOf = (change: Parameters<typeof clusterStack>[0], zones: readonly string[]) =>
    resource(
      clusterStack({ ...change, controlLink: { ...SPEC.controlLink, zones } }),
      "aws_vpc_endpoint",
      "control-link_endpoint",
    ).subnet_ids;
  const subnet = (zone: number) => reference(`aws_subnet.network_subnet-${zone}.id`);

  test("brokers dial a name of the gateways' certificate, which leads to the endpoint", () => {
    const stack = clusterStack();
    const host = NAMES.linkHost(SPEC.controlLink.domain);
    expect(host).toMatch(/^[a-z2-7]{10}\.link\.millrace\.example\.com$/);
    const template = resource(stack, "aws_launch_template", "slot-0_template");
    const script = Buffer.from(String(template.user_data), "base64").toString();
    expect(script).toContain(`LINK_ADDRESS='${host}:443'`);
    expect(script).toContain(`LINK_SECRET='${NAMES.linkSecret(0)}'`);
    expect(script).not.toContain("admin.");
    expect(resource(stack, "aws_route53_zone", "control-link_names_zone").name).toBe(host);
    expect(resource(stack, "aws_route53_record", "control-link_names_gateways")).toMatchObject({
      name: host,
      alias: {
        name: reference("aws_vpc_endpoint.control-link_endpoint.dns_entry[0].dns_name"),
        zone_id: reference("aws_vpc_endpoint.control-link_endpoint.dns_entry[0].hosted_zone_id"),
      },
    });
  });

  test("the endpoint is where slots are, as far as the service is there", () => {
    const [a, b, c] = SPEC.zones as [string, string, string];
    expect(subnetsOf({}, [a, b, c])).toEqual([0, 1, 2].map(subnet));
    expect(subnetsOf({}, [b, c])).toEqual([1, 2].map(subnet));
    // The only slot is in the first zone.
    expect(subnetsOf({ slots: 1 }, [b, c])).toEqual([subnet(1)]);
  });

  test("no value of a credential is in the stack", () => {
    const stack = clusterStack();
    expect(Object.keys(stack.resource.aws_secretsmanager_secret ?? {})).toHaveLength(3);
    expect(stack.resource.aws_secretsmanager_secret_version).toBeUndefined();
    expect(stack.variable).toBeUndefined();
  });

  test("a secret's name is free at once when the cluster goes, for one that is restored", () => {
    const secret = resource(
      clusterStack(),
      "aws_secretsmanager_secret",
      "link-credential-0_secret",
    );
    expect(secret.recovery_window_in_days).toBe(0);
  });
});

test("an emulator's stack can leave types out, and a sweep can bring resources back", () => {
  const text = synthesizeCluster(SPEC, {
    endpoint: "http://127.0.0.1:1",
    without: ["aws_vpc_endpoint_service"],
    imports: [{ to: "aws_ebs_volume.wal-0_volume", id: "vol-1" }],
  });
  const stack = JSON.parse(text);
  expect(stack.resource.aws_vpc_endpoint_service).toBeUndefined();
  expect(stack.import).toEqual([{ to: "aws_ebs_volume.wal-0_volume", id: "vol-1" }]);
  expect(stack.provider.aws[0].s3_use_path_style).toBe(true);
  expect(stack.provider.aws[0].endpoints[0].ec2).toBe("http://127.0.0.1:1");
});

test("plans without an account name none, and every stack names one version of the provider", () => {
  const { provider, terraform } = JSON.parse(synthesizeCluster(SPEC, { offline: true }));
  expect(provider.aws[0]).not.toHaveProperty("allowed_account_ids");
  expect(terraform.required_providers.aws.version).toBe("5.100.0");
});

test("Terraform takes the role of the tenant's account, narrowed to the cluster", () => {
  const stack = JSON.parse(
    synthesizeCluster(SPEC, {
      providerVersion: "~> 5.100",
      assumeRole: {
        roleArn: "arn:aws:iam::111122223333:role/provisioner",
        externalId: "external",
        sessionPolicy: "{}",
        durationSeconds: 3600,
      },
    }),
  );
  expect(stack.provider.aws[0].assume_role).toEqual([
    {
      role_arn: "arn:aws:iam::111122223333:role/provisioner",
      external_id: "external",
      policy: "{}",
      duration: "3600s",
      session_name: "millrace",
    },
  ]);
  expect(stack.terraform.required_providers.aws.version).toBe("~> 5.100");
  expect(stack.provider.aws[0]).not.toHaveProperty("access_key");
  expect(stack.provider.aws[0].allowed_account_ids).toEqual([SPEC.accountId]);
});
