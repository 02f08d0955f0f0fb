import { createAccessReview } from "./access-review/create-access-review.ts";
import { exportAccessReview } from "./access-review/export-access-review.ts";
import { getAccessReview } from "./access-review/get-access-review.ts";
import { getMe } from "./account/get-me.ts";
import { applyAclTemplate } from "./acl/apply-acl-template.ts";
import { createAcl } from "./acl/create-acl.ts";
import { deleteAcl } from "./acl/delete-acl.ts";
import { listAcls } from "./acl/list-acls.ts";
import { testAcl } from "./acl/test-acl.ts";
import { createApiKey } from "./api-key/create-api-key.ts";
import { deleteApiKey } from "./api-key/delete-api-key.ts";
import { getApiKey } from "./api-key/get-api-key.ts";
import { listApiKeys } from "./api-key/list-api-keys.ts";
import { rotateApiKey } from "./api-key/rotate-api-key.ts";
import { exportAuditEvents } from "./audit/export-audit-events.ts";
import { listAuditEvents } from "./audit/list-audit-events.ts";
import { getBenchmark } from "./benchmark/get-benchmark.ts";
import { listBenchmarks } from "./benchmark/list-benchmarks.ts";
import { runBenchmark } from "./benchmark/run-benchmark.ts";
import { listRegions } from "./catalog/list-regions.ts";
import { listSizes } from "./catalog/list-sizes.ts";
import { listVersions } from "./catalog/list-versions.ts";
import { getCatchUp } from "./catch-up/get-catch-up.ts";
import { listClientMetrics } from "./client-metrics/list-client-metrics.ts";
import { acceptDrift } from "./cluster/accept-drift.ts";
import { checkDrift } from "./cluster/check-drift.ts";
import { createCluster } from "./cluster/create-cluster.ts";
import { deleteCluster } from "./cluster/delete-cluster.ts";
import { getCaCertificate } from "./cluster/get-ca-certificate.ts";
import { getCluster } from "./cluster/get-cluster.ts";
import { getDrift } from "./cluster/get-drift.ts";
import { listBrokers } from "./cluster/list-brokers.ts";
import { listClusters } from "./cluster/list-clusters.ts";
import { pauseCluster } from "./cluster/pause-cluster.ts";
import { reconcileCluster } from "./cluster/reconcile-cluster.ts";
import { recoverCluster } from "./cluster/recover-cluster.ts";
import { restartCluster } from "./cluster/restart-cluster.ts";
import { restoreCluster } from "./cluster/restore-cluster.ts";
import { resumeCluster } from "./cluster/resume-cluster.ts";
import { updateCluster } from "./cluster/update-cluster.ts";
import { getConsumerGroup } from "./consumer-group/get-consumer-group.ts";
import { listConsumerGroups } from "./consumer-group/list-consumer-groups.ts";
import type { Contract } from "./contract.ts";
import { createEnvironment } from "./environment/create-environment.ts";
import { deleteEnvironment } from "./environment/delete-environment.ts";
import { getEnvironment } from "./environment/get-environment.ts";
import { listEnvironments } from "./environment/list-environments.ts";
import { updateEnvironment } from "./environment/update-environment.ts";
import { createInvitation } from "./invitation/create-invitation.ts";
import { deleteInvitation } from "./invitation/delete-invitation.ts";
import { getInvitation } from "./invitation/get-invitation.ts";
import { listInvitations } from "./invitation/list-invitations.ts";
import { deleteMember } from "./member/delete-member.ts";
import { getMember } from "./member/get-member.ts";
import { leaveOrganization } from "./member/leave-organization.ts";
import { listMembers } from "./member/list-members.ts";
import { updateMember } from "./member/update-member.ts";
import { exportMetrics, prometheusMetrics, queryMetrics } from "./metrics/query-metrics.ts";
import { approveOperation } from "./operation/approve-operation.ts";
import { cancelOperation } from "./operation/cancel-operation.ts";
import { getOperation } from "./operation/get-operation.ts";
import { getOperationPlan } from "./operation/get-operation-plan.ts";
import { listOperations } from "./operation/list-operations.ts";
import { retryOperation } from "./operation/retry-operation.ts";
import { watchOperation } from "./operation/watch-operation.ts";
import { listOutgoingMails } from "./outgoing-mail/list-outgoing-mails.ts";
import { openOutgoingMail } from "./outgoing-mail/open-outgoing-mail.ts";
import { deleteQuota } from "./quota/delete-quota.ts";
import { getQuotaUsage } from "./quota/get-quota-usage.ts";
import { listQuotas } from "./quota/list-quotas.ts";
import { setQuota } from "./quota/set-quota.ts";
import { listRecords } from "./record/list-records.ts";
import { produceRecords } from "./record/produce-records.ts";
import { streamRecords } from "./record/stream-records.ts";
import { createRole } from "./role/create-role.ts";
import { deleteRole } from "./role/delete-role.ts";
import { getRole } from "./role/get-role.ts";
import { listRoles } from "./role/list-roles.ts";
import { updateRole } from "./role/update-role.ts";
import { createServiceAccount } from "./service-account/create-service-account.ts";
import { createServiceAccountKey } from "./service-account/create-service-account-key.ts";
import { deleteServiceAccount } from "./service-account/delete-service-account.ts";
import { getServiceAccount } from "./service-account/get-service-account.ts";
import { listServiceAccounts } from "./service-account/list-service-accounts.ts";
import { updateServiceAccount } from "./service-account/update-service-account.ts";
import { deleteOtherSessions } from "./session/delete-other-sessions.ts";
import { deleteSession } from "./session/delete-session.ts";
import { listSessions } from "./session/list-sessions.ts";
import { deleteSingleSignOn } from "./single-sign-on/delete-single-sign-on.ts";
import { getSingleSignOn } from "./single-sign-on/get-single-sign-on.ts";
import { setSingleSignOn } from "./single-sign-on/set-single-sign-on.ts";
import { createTopic } from "./topic/create-topic.ts";
import { deleteTopic } from "./topic/delete-topic.ts";
import { getTopic } from "./topic/get-topic.ts";
import { listTopics } from "./topic/list-topics.ts";
import { updateTopic } from "./topic/update-topic.ts";
import { getTuning } from "./tuning/get-tuning.ts";
import { listTuningChanges } from "./tuning/list-tuning-changes.ts";
import { revertTuningChange } from "./tuning/revert-tuning-change.ts";
import { updateTuning } from "./tuning/update-tuning.ts";
import { createUser } from "./user/create-user.ts";
import { deleteUser } from "./user/delete-user.ts";
import { getUser } from "./user/get-user.ts";
import { listUsers } from "./user/list-users.ts";
import { rotateUser } from "./user/rotate-user.ts";
import { updateUser } from "./user/update-user.ts";

/** Every operation of the API, in the order of the reference page. */
export const contracts: readonly Contract[] = [
  createCluster,
  listClusters,
  getCluster,
  getCaCertificate,
  updateCluster,
  deleteCluster,
  pauseCluster,
  resumeCluster,
  restartCluster,
  listBrokers,
  recoverCluster,
  restoreCluster,
  getDrift,
  checkDrift,
  reconcileCluster,
  acceptDrift,
  listOperations,
  getOperation,
  getOperationPlan,
  approveOperation,
  cancelOperation,
  retryOperation,
  watchOperation,
  createTopic,
  listTopics,
  getTopic,
  updateTopic,
  deleteTopic,
  produceRecords,
  listRecords,
  streamRecords,
  listConsumerGroups,
  getConsumerGroup,
  createUser,
  listUsers,
  getUser,
  updateUser,
  rotateUser,
  deleteUser,
  createAcl,
  applyAclTemplate,
  listAcls,
  testAcl,
  deleteAcl,
  setQuota,
  listQuotas,
  deleteQuota,
  getQuotaUsage,
  getCatchUp,
  listClientMetrics,
  getTuning,
  updateTuning,
  listTuningChanges,
  revertTuningChange,
  queryMetrics,
  exportMetrics,
  prometheusMetrics,
  runBenchmark,
  listBenchmarks,
  getBenchmark,
  createEnvironment,
  listEnvironments,
  getEnvironment,
  updateEnvironment,
  deleteEnvironment,
  listMembers,
  getMember,
  updateMember,
  deleteMember,
  getAccessReview,
  createAccessReview,
  exportAccessReview,
  createRole,
  listRoles,
  getRole,
  updateRole,
  deleteRole,
  createInvitation,
  listInvitations,
  getInvitation,
  deleteInvitation,
  listOutgoingMails,
  openOutgoingMail,
  getSingleSignOn,
  setSingleSignOn,
  deleteSingleSignOn,
  createApiKey,
  listApiKeys,
  getApiKey,
  rotateApiKey,
  deleteApiKey,
  createServiceAccount,
  listServiceAccounts,
  getServiceAccount,
  updateServiceAccount,
  deleteServiceAccount,
  createServiceAccountKey,
  listAuditEvents,
  exportAuditEvents,
  listRegions,
  listSizes,
  listVersions,
  getMe,
  leaveOrganization,
  listSessions,
  deleteSession,
  deleteOtherSessions,
];
