import { expect, test } from "vitest";
import { reference, resource, snapshotText, stackOf } from "../../../test/stack-fixture.ts";
import { Endpoint } from "./endpoint.ts";
import { PrivateLink } from "./private-link.ts";
import { PrivateNames } from "./private-names.ts";

function endpoint() {
  return stackOf((scope) => {
    const made = new Endpoint(scope, "endpoint", {
      prefix: "test",
      vpcId: "vpc-1",
      subnetIds: ["subnet-1", "subnet-2"],
      securityGroupId: "sg-1",
    });
    made.listen({ name: "bootstrap", port: 9092, targetPort: 9092 });
    made.listen({ name: "kafka-0", port: 9093, targetPort: 9092 });
    new PrivateNames(scope, "names", {
      zone: "test.internal",
      comment: "Test",
      vpcId: "vpc-1",
      target: made.balancer,
      names: { bootstrap: "bootstrap.test.internal" },
    });
    new PrivateLink(scope, "link", {
      name: "test",
      balancerArn: made.balancer.arn,
      allowedPrincipals: ["arn:aws:iam::444455556666:root"],
    });
  });
}

test("an endpoint is what the snapshot shows", async () => {
  await expect(snapshotText(endpoint())).toMatchFileSnapshot("endpoint.snap");
});

test("the balancer is internal, and each zone's address reaches the slots of all", () => {
  expect(resource(endpoint(), "aws_lb")).toMatchObject({
    internal: true,
    load_balancer_type: "network",
    enable_cross_zone_load_balancing: true,
    security_groups: ["sg-1"],
  });
});

test("a target is healthy where the broker takes connections", () => {
  const stack = endpoint();
  for (const name of ["endpoint_bootstrap-targets", "endpoint_kafka-0-targets"]) {
    const { health_check: check } = resource(stack, "aws_lb_target_group", name);
    expect(check).toMatchObject({ protocol: "TCP" });
    // Absent, it is the port that clients' traffic goes to.
    expect(check).not.toHaveProperty("port");
  }
  expect(resource(stack, "aws_lb_listener", "endpoint_kafka-0-listener")).toMatchObject({
    port: 9093,
    default_action: [
      {
        type: "forward",
        target_group_arn: reference("aws_lb_target_group.endpoint_kafka-0-targets.arn"),
      },
    ],
  });
});

test("a client closes an idle connection before the balancer forgets it", () => {
  const KAFKA_CONNECTIONS_MAX_IDLE_SECONDS = 540;
  const listeners = Object.values(endpoint().resource.aws_lb_listener ?? {});
  expect(listeners.length).toBe(2);
  for (const { protocol, tcp_idle_timeout_seconds } of listeners) {
    expect(protocol).toBe("TCP");
    expect(tcp_idle_timeout_seconds).toBeGreaterThan(KAFKA_CONNECTIONS_MAX_IDLE_SECONDS);
    expect(tcp_idle_timeout_seconds).toBeLessThanOrEqual(6_000);
  }
});

test("names resolve in the network only", () => {
  const stack = endpoint();
  expect(resource(stack, "aws_route53_zone").vpc).toEqual([{ vpc_id: "vpc-1" }]);
  expect(resource(stack, "aws_route53_record")).toMatchObject({
    name: "bootstrap.test.internal",
    type: "A",
    alias: { name: reference("aws_lb.endpoint_balancer.dns_name") },
  });
});

test("only named principals connect to the endpoint service", () => {
  expect(resource(endpoint(), "aws_vpc_endpoint_service")).toMatchObject({
    allowed_principals: ["arn:aws:iam::444455556666:root"],
    network_load_balancer_arns: [reference("aws_lb.endpoint_balancer.arn")],
  });
});
