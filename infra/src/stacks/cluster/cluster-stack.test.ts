import { gunzipSync } from "node:zlib";
import {
  ALARMS_OF_DATABASE,
  ALARMS_PER_CLUSTER,
  ALARMS_PER_SLOT,
  awsSizing,
  baselinesOf,
  INTERFACE_ENDPOINT_SERVICES,
  SECRETS_OF_DATABASE,
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
  type StackDocument,
  snapshotText,
  statements,
} from "../../../test/stack-fixture.ts";
import { checkPolicies } from "../../policy/index.ts";
import { isTaggable } from "../../policy/taggable.ts";
import { synthesizeCluster } from "./cluster-stack.ts";
import { clusterNames } from "./names.ts";

const NAMES = clusterNames(SPEC.clusterId, SPEC.accountId);

/** What an instance of a slot runs, unpacked. */
function scriptOf(stack: StackDocument, slot: number): string {
  const template = resource(stack, "aws_launch_template", `slot-${slot}_template`);
  const text = Buffer.from(String(template.user_data), "base64").toString();
  const [, packed] = /<<'EOF' \| gzip -d [^\n]*\n([\s\S]*?)\nEOF/.exec(text) ?? [];
  return packed === undefined ? text : gunzipSync(Buffer.from(packed, "base64")).toString();
}

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
    const volume = resource(stack, "aws_ebs_volume", `wal-${slot + 1}_volume`);
    expect(volume.availability_zone).toBe(zone);
    expect(resource(stack, "aws_subnet", subnet).availability_zone).toBe(zone);
    expect(
      resource(stack, "aws_autoscaling_group", `slot-${slot + 1}_group`).vpc_zone_identifier,
    ).toEqual([reference(`aws_subnet.${subnet}.id`)]);
  });
});

test("the volume and the machine set the broker's log and network", () => {
  const userDataOf = (throughputMibps: number) => {
    const stack = clusterStack({ slots: 1, wal: { ...SPEC.wal, throughputMibps } });
    return scriptOf(stack, 0);
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
  const small = scriptOf(io2, 1);
  // 200 IOPS of 256 KiB are less than the machine sustains, so the volume decides.
  expect(small).toContain(`bandwidth=${51 * 1024 ** 2}`);
  expect(userDataOf(125)).toContain(`bandwidth=${instance.ebsBaselineBytesPerSecond}`);
});

test("what a tenant asked for goes before what follows from the machine", () => {
  const properties = { "s3.network.egress.baseline.bandwidth": "12345678" };
  const script = scriptOf(clusterStack({ properties }), 1);
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
  expect(group.depends_on).toEqual(
    expect.arrayContaining([
      "aws_db_instance.metadata_instance",
      "aws_secretsmanager_secret_version.metadata_url-version",
      "aws_vpc_security_group_ingress_rule.metadata_firewall_in-brokers",
    ]),
  );
  expect(group.depends_on).not.toContain("aws_ebs_volume.wal-2_volume");
});

describe("modes", () => {
  test("paused is the same cluster without instances and alarms", () => {
    const running = addresses(clusterStack());
    const stack = clusterStack({ mode: "paused" });
    expect(addresses(stack)).toEqual(
      running.filter((address) => !address.startsWith("aws_cloudwatch_metric_alarm.")),
    );
    const group = resource(stack, "aws_autoscaling_group", "slot-3_group");
    expect([group.min_size, group.desired_capacity, group.max_size]).toEqual([0, 0, 0]);
  });

  test("retained keeps what holds data, as it was", () => {
    const running = clusterStack({ slots: 1 });
    const retained = clusterStack({ slots: 1, mode: "retained" });
    const kept = ["aws_ebs_volume", "aws_kms_alias", "aws_kms_key", "aws_cloudwatch_log_group"];
    expect(new Set(Object.keys(retained.resource).filter((type) => !/_s3_/.test(type)))).toEqual(
      new Set(kept),
    );
    for (const [type, byName] of Object.entries(retained.resource)) {
      expect(byName).toEqual(running.resource[type]);
    }
    expect(retained.variable).toBeUndefined();
  });

  test("retained keeps the metadata of several in its network, and nobody reaches it", () => {
    const running = clusterStack();
    const retained = clusterStack({ mode: "retained" });
    const types = Object.keys(retained.resource);
    expect(types).toEqual(expect.arrayContaining(["aws_db_instance", "aws_subnet"]));
    expect(types).not.toContain("aws_vpc_security_group_ingress_rule");
    for (const [type, byName] of Object.entries(retained.resource))
      for (const [name, attributes] of Object.entries(byName))
        expect(attributes).toEqual(running.resource[type]?.[name]);
  });

  test("only the purge can destroy volumes, bucket and key", () => {
    const guarded = ["aws_ebs_volume", "aws_kms_key", "aws_s3_bucket", "aws_db_instance"];
    const protection = (mode: "running" | "paused" | "retained" | "purge") =>
      guarded.flatMap((type) =>
        Object.values(clusterStack({ mode }).resource[type] ?? {}).map(
          ({ lifecycle }) => (lifecycle as { prevent_destroy: boolean }).prevent_destroy,
        ),
      );
    for (const mode of ["running", "paused", "retained"] as const)
      expect(protection(mode)).toEqual(Array(6).fill(true));
    expect(protection("purge")).toEqual(Array(6).fill(false));
    expect(resource(clusterStack(), "aws_db_instance")).toMatchObject({
      deletion_protection: true,
      skip_final_snapshot: false,
    });
    expect(resource(clusterStack({ mode: "purge" }), "aws_db_instance")).toMatchObject({
      deletion_protection: false,
      skip_final_snapshot: true,
    });
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
    expect(ingress({ slots: 1 }).sort()).toEqual([
      `${reference("aws_security_group.balancer_group.id")} 9092-9092`,
      `${reference("aws_security_group.brokers_group.id")} 443-443`,
      "10.40.0.0/16 443-443",
      "10.40.0.0/16 9092-9093",
      "10.8.0.0/16 9092-9093",
    ]);
  });

  test("several brokers reach each other at a port of their own, and they alone their metadata", () => {
    expect(ingress().sort()).toEqual([
      `${reference("aws_security_group.balancer_group.id")} 9092-9092`,
      `${reference("aws_security_group.brokers_group.id")} 443-443`,
      `${reference("aws_security_group.brokers_group.id")} 5432-5432`,
      `${reference("aws_security_group.brokers_group.id")} 9103-9103`,
      "10.40.0.0/16 443-443",
      "10.40.0.0/16 9092-9102",
      "10.8.0.0/16 9092-9102",
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
    expect(resource(stack, "aws_autoscaling_group", "slot-3_group").vpc_zone_identifier).toEqual([
      "subnet-0c000000",
    ]);
    expect(checkPolicies(stack, { kind: "cluster" })).toEqual([]);
  });
});

describe("what a slot may do", () => {
  const role = statements(resource(clusterStack(), "aws_iam_role_policy", "role-1_policy"));
  const of = (sid: string) => role.find((statement) => statement.Sid === sid);

  test("the only one attaches only its own volume, to its own instance", () => {
    const alone = clusterStack({ slots: 1 });
    const own = statements(resource(alone, "aws_iam_role_policy", "role-0_policy"));
    expect(own.find(({ Sid }) => Sid === "AttachVolume")?.Condition).toEqual({
      StringEquals: {
        "aws:ResourceTag/millrace:cluster": SPEC.clusterId,
        "aws:ResourceTag/millrace:slot": "0",
      },
    });
    expect(JSON.stringify(own)).not.toContain("DetachVolume");
  });

  test("one of several attaches log volumes of the cluster to itself, and takes them from others", () => {
    const cluster = { "aws:ResourceTag/millrace:cluster": SPEC.clusterId };
    expect(of("LogVolumes")).toMatchObject({
      Action: ["ec2:AttachVolume", "ec2:DetachVolume"],
      Resource: [expect.stringContaining(":volume/*")],
      Condition: { StringEquals: { ...cluster, "aws:ResourceTag/millrace:volume": "wal" } },
    });
    expect(of("DetachFromTheDead")).toMatchObject({
      Action: ["ec2:DetachVolume"],
      Resource: [expect.stringContaining(":instance/*")],
      Condition: { StringEquals: cluster },
    });
    expect(of("AttachToItself")?.Action).toEqual(["ec2:AttachVolume"]);
    const tags = resource(clusterStack(), "aws_ebs_volume", "wal-1_volume").tags;
    expect(tags).toMatchObject({ "millrace:volume": "wal", "millrace:slot": "1" });
    // The system volume of an instance has the slot's tags as well.
    const template = JSON.stringify(
      resource(clusterStack(), "aws_launch_template", "slot-1_template"),
    );
    expect(template).not.toContain("millrace:volume");
    expect(of("Metadata")?.Resource).toEqual([
      `arn:aws:secretsmanager:${SPEC.region}:${SPEC.accountId}:secret:${NAMES.metadataSecrets.url}-??????`,
    ]);
    expect(of("AttachToItself")?.Condition).toEqual({
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
    expect(Object.keys(alarms)).toHaveLength(
      ALARMS_PER_CLUSTER + 3 * ALARMS_PER_SLOT + ALARMS_OF_DATABASE,
    );
    const alone = clusterStack({ slots: 1 }).resource.aws_cloudwatch_metric_alarm ?? {};
    expect(Object.keys(alone)).toHaveLength(ALARMS_PER_CLUSTER + ALARMS_PER_SLOT);
  });

  test("secrets", () => {
    const secrets = clusterStack().resource.aws_secretsmanager_secret ?? {};
    expect(Object.keys(secrets)).toHaveLength(3 + SECRETS_OF_DATABASE);
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
    const script = scriptOf(stack, 1);
    expect(script).toContain(`LINK_ADDRESS='${host}:443'`);
    expect(script).toContain(`LINK_SECRET='${NAMES.linkSecret(1)}'`);
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
    const stack = clusterStack({ slots: 1 });
    expect(Object.keys(stack.resource.aws_secretsmanager_secret ?? {})).toHaveLength(1);
    expect(stack.resource.aws_secretsmanager_secret_version).toBeUndefined();
    expect(stack.variable).toBeUndefined();
  });

  test("a secret's name is free at once when the cluster goes, for one that is restored", () => {
    const secret = resource(
      clusterStack(),
      "aws_secretsmanager_secret",
      "link-credential-1_secret",
    );
    expect(secret.recovery_window_in_days).toBe(0);
  });
});

describe("the metadata of several", () => {
  test("is in PostgreSQL 17 in two zones, encrypted, backed up, over TLS only", () => {
    const stack = clusterStack();
    expect(resource(stack, "aws_db_instance")).toMatchObject({
      engine_version: "17",
      multi_az: true,
      storage_encrypted: true,
      kms_key_id: reference("aws_kms_key.encryption_key.arn"),
      publicly_accessible: false,
      backup_retention_period: 14,
      instance_class: awsSizing("small").metadata,
    });
    expect(resource(stack, "aws_db_subnet_group").subnet_ids).toHaveLength(3);
    expect(resource(stack, "aws_db_parameter_group").parameter).toContainEqual({
      name: "rds.force_ssl",
      value: "1",
    });
  });

  test("has a password that no plan or state contains, and the one that its secret stores", () => {
    const stack = clusterStack();
    const { metadata_password } = stack.variable ?? {};
    expect(metadata_password).toMatchObject({ ephemeral: true, sensitive: true });
    const stored = resource(
      stack,
      "aws_secretsmanager_secret_version",
      "metadata_password-version",
    );
    expect(stored.secret_string_wo).toBe(reference("var.metadata_password"));
    const password =
      "ephemeral.aws_secretsmanager_secret_version.metadata_stored-password.secret_string";
    expect(resource(stack, "aws_db_instance")).toMatchObject({ password_wo: reference(password) });
    const url = resource(stack, "aws_secretsmanager_secret_version", "metadata_url-version");
    expect(url.secret_string_wo).toBe(
      `postgres://millrace:${reference(password)}@${reference("aws_db_instance.metadata_instance.address")}:5432/millrace?sslmode=verify-full&sslrootcert=/run/millrace/etc/database-ca.pem`,
    );
    for (const version of [stored, url]) expect(version).not.toHaveProperty("secret_string");
  });

  test("reaches each broker with its zone, its fence and the authority that it trusts", () => {
    const script = scriptOf(clusterStack(), 2);
    expect(script).toContain("SLOT='2'");
    expect(script).toContain("RACK='eu-central-1b'");
    expect(script).toContain("WAL_FENCE='detach'");
    expect(script).toContain(`METADATA_SECRET='${NAMES.metadataSecrets.url}'`);
    expect(script).toContain(`DATABASE_AUTHORITY='${SPEC.databaseAuthority?.trim()}'`);
    expect(script).toContain(`ADVERTISED_HOST='${NAMES.slotHost(2)}'\nADVERTISED_PORT='9095'`);
    expect(resource(clusterStack(), "aws_lb_listener", "endpoint_kafka-2-listener").port).toBe(
      9095,
    );
  });

  test("an io2 volume may be attached by the other brokers of its zone, and a gp3 by one", () => {
    const wal = { type: "io2", sizeGib: 20, iops: 3000, throughputMibps: undefined } as const;
    const several = clusterStack({ wal });
    expect(resource(several, "aws_ebs_volume", "wal-1_volume").multi_attach_enabled).toBe(true);
    expect(scriptOf(several, 1)).toContain("WAL_FENCE='reservation'");
    const { "wal-1_volume": gp3 } = clusterStack().resource.aws_ebs_volume ?? {};
    expect(gp3).not.toHaveProperty("multi_attach_enabled");
    const alone = clusterStack({ wal, slots: 1 });
    expect(resource(alone, "aws_ebs_volume")).not.toHaveProperty("multi_attach_enabled");
  });
});

test("an emulator's stack can leave types out, and a sweep can bring resources back", () => {
  const text = synthesizeCluster(SPEC, {
    endpoint: "http://127.0.0.1:1",
    without: ["aws_vpc_endpoint_service"],
    imports: [{ to: "aws_ebs_volume.wal-1_volume", id: "vol-1" }],
  });
  const stack = JSON.parse(text);
  expect(stack.resource.aws_vpc_endpoint_service).toBeUndefined();
  expect(stack.import).toEqual([{ to: "aws_ebs_volume.wal-1_volume", id: "vol-1" }]);
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
