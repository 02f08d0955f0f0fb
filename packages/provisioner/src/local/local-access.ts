/** How programs reach the brokers of this machine. */
import {
  brokerIdsOf,
  type ClusterId,
  CONTROL_PLANE_USER,
  endpointsAt,
  placementOf,
} from "@millrace/domain";
import {
  adminUrlOf,
  type ClusterDeployment,
  type ClusterDriver,
  ProvisionError,
} from "../cluster-driver.ts";
import { type ControlLink, linkedAdmin } from "../control-link.ts";
import type { KafkaAddress } from "../kafka-address.ts";
import { BrokerFiles } from "./broker-files.ts";
import { CertificateAuthority } from "./certificate-authority.ts";

/**
 * How to reach the brokers of the installation whose state folder is `home`, for programs that start
 * none: by the gateways of `link`, or at its admin port where the broker was prepared without a gateway. Throws
 * `ProvisionError` `not_prepared`, `unconfigured`.
 */
export function localAccess(home: string, link?: ControlLink): ClusterDriver["access"] {
  const kafkaOf = localKafka(home);
  return async (deployment, brokerId = brokerIdsOf(deployment)[0] ?? 0) => {
    const { clusterId, placement } = deployment;
    const files = new BrokerFiles(home, clusterId, { brokerId });
    const adminToken = await files.readToken();
    if (adminToken === undefined) throw notPrepared(clusterId);
    const kafka = () => kafkaOf(deployment);
    // A broker that is not prepared yet, one of several, will connect there if it has no port of its own.
    const isLinked = placement.adminPort === undefined || (await files.hasLink());
    if (link === undefined || !isLinked) {
      return { kafka, adminUrl: adminUrlOf(placementOf(placement, brokerId)), adminToken };
    }
    return { kafka, ...linkedAdmin(link, { clusterId: clusterId as ClusterId, brokerId }) };
  };
}

/**
 * How a benchmark's load connects to a cluster: as the control plane's user where its brokers have started
 * with it, and without TLS where they have an earlier version's configuration or no TLS listener.
 * Throws `ProvisionError` `not_prepared`, and `config` for a damaged CA.
 */
function localKafka(home: string): (deployment: ClusterDeployment) => Promise<KafkaAddress> {
  const authority = new CertificateAuthority(home);
  return async (deployment) => {
    const { clusterId, placement } = deployment;
    const [brokerId] = brokerIdsOf(deployment);
    const files = new BrokerFiles(home, clusterId, { brokerId });
    const endpoints = endpointsAt(placement, { ...deployment, plaintextListener: true });
    const addressOf = (protocol: "PLAINTEXT" | "SASL_SSL") =>
      endpoints.find((endpoint) => endpoint.protocol === protocol)?.bootstrapServers;
    const secure = addressOf("SASL_SSL");
    if (secure === undefined || !(await files.knowsControlPlane())) {
      return { bootstrapServers: addressOf("PLAINTEXT") ?? "" };
    }
    const [password, root] = await Promise.all([files.readToken(), authority.root()]);
    if (password === undefined) throw notPrepared(clusterId);
    // For Node, an empty root means the public ones. The CA is made with the first certificate.
    if (root === undefined) {
      throw new ProvisionError("not_prepared", "this installation has no CA yet");
    }
    return {
      bootstrapServers: secure,
      signIn: { rootCertificate: root, user: CONTROL_PLANE_USER, password },
    };
  };
}

export function notPrepared(clusterId: string): ProvisionError {
  return new ProvisionError("not_prepared", `cluster ${clusterId} has no configuration here`);
}
