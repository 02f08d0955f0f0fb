export { createAccessReview } from "./access-review/create-access-review.ts";
export { getAccessReview } from "./access-review/get-access-review.ts";
export { getAccount } from "./account/get-account.ts";
export { createAcls } from "./acl/create-acls.ts";
export { deleteAcl } from "./acl/delete-acl.ts";
export { listAcls } from "./acl/list-acls.ts";
export { testAcl } from "./acl/test-acl.ts";
export { createApiKey } from "./api-key/create-api-key.ts";
export { deleteApiKey } from "./api-key/delete-api-key.ts";
export { getApiKey } from "./api-key/get-api-key.ts";
export { listApiKeys } from "./api-key/list-api-keys.ts";
export { rotateApiKey } from "./api-key/rotate-api-key.ts";
export { AuditTrail } from "./audit/audit-trail.ts";
export { exportAuditEvents } from "./audit/export-audit-events.ts";
export { listAuditEvents } from "./audit/list-audit-events.ts";
export { type ChainTools, verifyAuditChains } from "./audit/verify-audit-chains.ts";
export { type BenchmarkView, getBenchmark } from "./benchmark/get-benchmark.ts";
export { listBenchmarks } from "./benchmark/list-benchmarks.ts";
export { runBenchmark } from "./benchmark/run-benchmark.ts";
export {
  type BrokerHttpAccess,
  type BrokerHttpPort,
  brokerHttpBy,
} from "./broker-access.ts";
export { BrokerCalls } from "./broker-calls.ts";
export { getCatchUp } from "./catch-up/get-catch-up.ts";
export { listClientMetrics } from "./client-metrics/list-client-metrics.ts";
export { acceptDrift } from "./cluster/accept-drift.ts";
export type { ChangePreview } from "./cluster/change-preview.ts";
export { checkDrift } from "./cluster/check-drift.ts";
export { estimateOf } from "./cluster/cluster-estimate.ts";
export { clusterEtag } from "./cluster/cluster-etag.ts";
export { createCluster } from "./cluster/create-cluster.ts";
export { deleteCluster } from "./cluster/delete-cluster.ts";
export { getCaCertificate } from "./cluster/get-ca-certificate.ts";
export { type ClusterView, getCluster } from "./cluster/get-cluster.ts";
export { type DriftView, getDrift, viewDrift } from "./cluster/get-drift.ts";
export { type BrokersView, type BrokerView, listBrokers } from "./cluster/list-brokers.ts";
export { listClusters } from "./cluster/list-clusters.ts";
export { pauseCluster } from "./cluster/pause-cluster.ts";
export { previewCreate } from "./cluster/preview-create.ts";
export { previewDelete } from "./cluster/preview-delete.ts";
export { previewRecover } from "./cluster/preview-recover.ts";
export { previewUpdate } from "./cluster/preview-update.ts";
export { reconcileCluster } from "./cluster/reconcile-cluster.ts";
export { recoverCluster } from "./cluster/recover-cluster.ts";
export {
  type BrokerHealth,
  forgetRestarts,
  reportDegraded,
  reportRecovered,
} from "./cluster/report-health.ts";
export type { NetworkRequest, WalRequest } from "./cluster/resolve-spec.ts";
export { restartCluster } from "./cluster/restart-cluster.ts";
export { restoreCluster } from "./cluster/restore-cluster.ts";
export { resumeCluster } from "./cluster/resume-cluster.ts";
export { type ClusterPatch, updateCluster } from "./cluster/update-cluster.ts";
export { getConsumerGroup } from "./consumer-group/get-consumer-group.ts";
export { listConsumerGroups } from "./consumer-group/list-consumer-groups.ts";
export {
  type Core,
  type CoreOptions,
  type CoreParts,
  coreOf,
  createCore,
  type RegionDrivers,
  ssoSecretSeal,
} from "./core.ts";
export {
  deploymentOf,
  LEASE_MS_DEFAULT,
  linkCredentialsIn,
  originBeforeChange,
  removeLeftTopics,
  runOperation,
  terraformStatesIn,
  type WorkerTools,
} from "./engine/index.ts";
export { createEnvironment } from "./environment/create-environment.ts";
export { deleteEnvironment } from "./environment/delete-environment.ts";
export { getEnvironment } from "./environment/get-environment.ts";
export { listEnvironments } from "./environment/list-environments.ts";
export { updateEnvironment } from "./environment/update-environment.ts";
export { acceptInvitation, openInvitation } from "./invitation/accept-invitation.ts";
export { createInvitation } from "./invitation/create-invitation.ts";
export { deleteInvitation } from "./invitation/delete-invitation.ts";
export { getInvitation } from "./invitation/get-invitation.ts";
export { listInvitations } from "./invitation/list-invitations.ts";
export { deleteMember } from "./member/delete-member.ts";
export { getMember } from "./member/get-member.ts";
export { leaveOrganization } from "./member/leave-organization.ts";
export { listMembers } from "./member/list-members.ts";
export { updateMember } from "./member/update-member.ts";
export { getPrometheusMetrics } from "./metrics/get-prometheus-metrics.ts";
export {
  type QueryClusterMetricsInput,
  queryClusterMetrics,
} from "./metrics/query-cluster-metrics.ts";
export { type PromqlAnswer, type PromqlRequest, queryPromql } from "./metrics/query-promql.ts";
export { approveOperation } from "./operation/approve-operation.ts";
export { cancelOperation } from "./operation/cancel-operation.ts";
export { getOperation } from "./operation/get-operation.ts";
export { getOperationPlan, type OperationPlanView } from "./operation/get-operation-plan.ts";
export { listOperations } from "./operation/list-operations.ts";
export { retryOperation } from "./operation/retry-operation.ts";
export { scheduleOperations } from "./operation/schedule-operations.ts";
export { watchOperation } from "./operation/watch-operation.ts";
export { listOutgoingMails } from "./outgoing-mail/list-outgoing-mails.ts";
export { openOutgoingMail } from "./outgoing-mail/open-outgoing-mail.ts";
export {
  addPlatformOperator,
  type PlatformOperatorTools,
} from "./platform/add-platform-operator.ts";
export { beginImpersonation } from "./platform/begin-impersonation.ts";
export { endImpersonation } from "./platform/end-impersonation.ts";
export { listPlatformOrganizations } from "./platform/list-platform-organizations.ts";
export { resetPlatformOperator } from "./platform/reset-platform-operator.ts";
export { deleteQuota } from "./quota/delete-quota.ts";
export { getQuotaUsage } from "./quota/get-quota-usage.ts";
export { listQuotas } from "./quota/list-quotas.ts";
export { setQuota } from "./quota/set-quota.ts";
export { listRecords } from "./record/list-records.ts";
export { produceRecords } from "./record/produce-records.ts";
export { streamRecords } from "./record/stream-records.ts";
export { createRole } from "./role/create-role.ts";
export { deleteRole } from "./role/delete-role.ts";
export { getRole } from "./role/get-role.ts";
export { listRoles } from "./role/list-roles.ts";
export { updateRole } from "./role/update-role.ts";
export { createServiceAccount } from "./service-account/create-service-account.ts";
export { createServiceAccountKey } from "./service-account/create-service-account-key.ts";
export { deleteServiceAccount } from "./service-account/delete-service-account.ts";
export { getServiceAccount } from "./service-account/get-service-account.ts";
export { listServiceAccounts } from "./service-account/list-service-accounts.ts";
export { updateServiceAccount } from "./service-account/update-service-account.ts";
export { deleteOtherSessions } from "./session/delete-other-sessions.ts";
export { deleteSession } from "./session/delete-session.ts";
export { listSessions } from "./session/list-sessions.ts";
export { beginSsoProof } from "./single-sign-on/begin-sso-proof.ts";
export { beginSsoSignIn } from "./single-sign-on/begin-sso-sign-in.ts";
export { deleteSingleSignOn } from "./single-sign-on/delete-single-sign-on.ts";
export { finishSso } from "./single-sign-on/finish-sso.ts";
export { getSingleSignOn } from "./single-sign-on/get-single-sign-on.ts";
export { resealClientSecrets } from "./single-sign-on/reseal-client-secrets.ts";
export { setSingleSignOn } from "./single-sign-on/set-single-sign-on.ts";
export { type BootstrapAnswer, bootstrapTenant } from "./tenant/bootstrap-tenant.ts";
export { createTopic } from "./topic/create-topic.ts";
export { deleteTopic } from "./topic/delete-topic.ts";
export { getTopic } from "./topic/get-topic.ts";
export { type ListedTopic, listTopics } from "./topic/list-topics.ts";
export { updateTopic } from "./topic/update-topic.ts";
export { applyTuning, type TuningTools } from "./tuning/apply-tuning.ts";
export { getTuning } from "./tuning/get-tuning.ts";
export { listTuningChanges, type TuningChangeView } from "./tuning/list-tuning-changes.ts";
export { revertTuningChange } from "./tuning/revert-tuning-change.ts";
export type { KnobView, TuningView } from "./tuning/tuning-view.ts";
export { updateTuning } from "./tuning/update-tuning.ts";
export { createUser } from "./user/create-user.ts";
export { deleteUser } from "./user/delete-user.ts";
export { getUser } from "./user/get-user.ts";
export { listUsers } from "./user/list-users.ts";
export { rotateUser } from "./user/rotate-user.ts";
export { updateUser } from "./user/update-user.ts";
