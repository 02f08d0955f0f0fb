import { Lb } from "@cdktn/provider-aws/lib/lb/index.js";
import { LbListener } from "@cdktn/provider-aws/lib/lb-listener/index.js";
import { LbListenerRule } from "@cdktn/provider-aws/lib/lb-listener-rule/index.js";
import { LbTargetGroup } from "@cdktn/provider-aws/lib/lb-target-group/index.js";
import { Construct } from "constructs";
import { Firewall } from "../network/firewall.ts";

export interface FrontDoorProps {
  readonly name: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly certificateArn: string;
  readonly allowedCidrs: readonly string[];
  readonly logBucket: string;
}

export interface BackendProps {
  readonly name: string;
  readonly port: number;
  /** Answers 200 where the backend serves. */
  readonly healthPath: string;
  /** Paths routed here, at most five (AWS's limit). Absent: every path without another target. */
  readonly paths?: readonly string[];
  readonly priority?: number;
}

const HTTPS = { from: 443, to: 443 };
const HTTP = { from: 80, to: 80 };
/** TLS 1.2 and 1.3 with forward secrecy only. */
const TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06";
/** Event streams are silent for up to half a minute. */
const IDLE_SECONDS = 120;

/** The balancer in front of console and API: HTTPS, and a redirect for who forgot it. */
export class FrontDoor extends Construct {
  readonly firewall: Firewall;
  /** What the domain name must be an alias of. */
  readonly dnsName: string;
  readonly suffix: string;
  readonly #listenerArn: string;
  readonly #console: LbTargetGroup;
  readonly #props: FrontDoorProps;

  constructor(scope: Construct, id: string, props: FrontDoorProps, fallback: BackendProps) {
    super(scope, id);
    this.#props = props;
    this.firewall = new Firewall(this, "firewall", {
      name: `${props.name}-front-door`,
      description: "Console and API as browsers and clients reach them",
      vpcId: props.vpcId,
    });
    for (const [index, cidr] of props.allowedCidrs.entries()) {
      this.firewall.admit(`https-${index}`, "HTTPS", HTTPS, { cidr });
      this.firewall.admit(`http-${index}`, "Redirected to HTTPS", HTTP, { cidr });
    }
    const balancer = new Lb(this, "balancer", {
      name: props.name,
      loadBalancerType: "application",
      internal: false,
      subnets: [...props.subnetIds],
      securityGroups: [this.firewall.id],
      dropInvalidHeaderFields: true,
      enableDeletionProtection: true,
      idleTimeout: IDLE_SECONDS,
      accessLogs: { bucket: props.logBucket, enabled: true },
    });
    this.suffix = balancer.arnSuffix;
    this.dnsName = balancer.dnsName;
    this.#console = this.#targets(fallback);
    new LbListener(this, "http", {
      loadBalancerArn: balancer.arn,
      port: HTTP.from,
      protocol: "HTTP",
      defaultAction: [
        { type: "redirect", redirect: { port: "443", protocol: "HTTPS", statusCode: "HTTP_301" } },
      ],
    });
    const listener = new LbListener(this, "https", {
      loadBalancerArn: balancer.arn,
      port: HTTPS.from,
      protocol: "HTTPS",
      sslPolicy: TLS_POLICY,
      certificateArn: props.certificateArn,
      defaultAction: [{ type: "forward", targetGroupArn: this.#console.arn }],
    });
    this.#listenerArn = listener.arn;
  }

  /** Target group of what takes everything else. */
  get fallbackArn(): string {
    return this.#console.arn;
  }

  /** Sends paths to a backend; answers its target group's ARN. */
  route(backend: BackendProps): string {
    const group = this.#targets(backend);
    new LbListenerRule(this, `${backend.name}-rule`, {
      listenerArn: this.#listenerArn,
      priority: backend.priority ?? 1,
      condition: [{ pathPattern: { values: [...(backend.paths ?? [])] } }],
      action: [{ type: "forward", targetGroupArn: group.arn }],
    });
    return group.arn;
  }

  #targets(backend: BackendProps): LbTargetGroup {
    return new LbTargetGroup(this, `${backend.name}-targets`, {
      name: `${this.#props.name}-${backend.name}`,
      vpcId: this.#props.vpcId,
      port: backend.port,
      protocol: "HTTP",
      targetType: "ip",
      deregistrationDelay: "30",
      healthCheck: { path: backend.healthPath, interval: 15, matcher: "200" },
    });
  }
}
