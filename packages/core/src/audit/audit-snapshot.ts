import type { Transaction } from "@millrace/db";
import {
  type AuditDetail,
  auditDetail,
  isId,
  type Operation,
  type OrganizationId,
} from "@millrace/domain";

/** What the audit log shows of a target, as the transaction sees it; undefined where there is none. */
export async function snapshot(
  tx: Transaction,
  organizationId: OrganizationId,
  id: string,
): Promise<AuditDetail | undefined> {
  if (isId("clu", id)) return auditDetail(clusterFields(await tx.clusters.load(id)));
  if (isId("op", id)) return auditDetail(operationFields(await tx.operations.load(id)));
  if (isId("env", id)) {
    const found = await tx.organizations.getEnvironment(organizationId, id);
    return auditDetail(found && { name: found.name });
  }
  if (isId("mem", id)) {
    const member = await tx.members.get(organizationId, id);
    return auditDetail(
      member && { email: member.email, role: member.role, customRole: member.customRole?.name },
    );
  }
  if (isId("inv", id)) {
    const found = await tx.invitations.get(organizationId, id);
    return auditDetail(
      found && { email: found.email, role: found.role, revokedAt: found.revokedAt },
    );
  }
  if (isId("mai", id)) {
    const found = (await tx.outgoingMails.get(organizationId, id))?.mail;
    const { recipient, subject, openedAt } = found ?? {};
    return auditDetail(found && { recipient, subject, openedAt });
  }
  if (isId("rev", id)) {
    const review = await tx.accessReviews.get(organizationId, id);
    return auditDetail(
      review && { ...review.counts, digest: review.digest, complete: review.isComplete },
    );
  }
  if (isId("rol", id)) {
    const role = await tx.customRoles.get(organizationId, id);
    return auditDetail(
      role && { name: role.name, description: role.description, permissions: role.permissions },
    );
  }
  if (isId("svc", id)) {
    const found = await tx.serviceAccounts.get(organizationId, id);
    return auditDetail(
      found && {
        ...{ name: found.name, description: found.description, role: found.role },
        disabledAt: found.disabledAt,
      },
    );
  }
  if (isId("sso", id)) {
    const found = (await tx.ssoConnections.find(organizationId))?.connection;
    const { issuer, clientId, domains, defaultRole, required } = found ?? {};
    return auditDetail(found && { issuer, clientId, domains, defaultRole, required });
  }
  if (!isId("key", id)) return undefined;
  const key = await tx.apiKeys.get(organizationId, id);
  return auditDetail(
    key && {
      ...{ name: key.name, role: key.role, hint: key.hint, permissions: key.permissions },
      ...{ allowedAddresses: key.allowedAddresses, expiresAt: key.expiresAt },
      ...{ serviceAccountId: key.serviceAccountId, revokedAt: key.revokedAt },
    },
  );
}

type Cluster = NonNullable<Awaited<ReturnType<Transaction["clusters"]["load"]>>>;

/** What callers ask for, and the phase: what is observed changes by itself. */
function clusterFields(cluster: Cluster | undefined) {
  if (cluster === undefined) return undefined;
  const { name, region, size, labels, brokers, zones, aws, paused, phase } = cluster;
  const { deletionProtection, plaintextListener, purgeAt, environmentId, drift } = cluster;
  return {
    ...{ name, region, size, labels, brokers, zones, aws, paused, phase },
    ...{ deletionProtection, plaintextListener, purgeAt, environmentId },
    driftStatus: drift.status,
    tuning: cluster.tuning.overrides,
  };
}

function operationFields(operation: Operation | undefined) {
  if (operation === undefined) return undefined;
  const { kind, phase, clusterId, cancelRequestedAt, approval } = operation;
  return { kind, phase, clusterId, cancelRequestedAt, approvedDigest: approval?.digest };
}
