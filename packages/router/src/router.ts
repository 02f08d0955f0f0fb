import { createAccessReviewProcedure } from "./access-review/create-access-review.ts";
import { exportAccessReviewProcedure } from "./access-review/export-access-review.ts";
import { getAccessReviewProcedure } from "./access-review/get-access-review.ts";
import { getMeProcedure } from "./account/get-me.ts";
import { applyAclTemplateProcedure } from "./acl/apply-acl-template.ts";
import { createAclProcedure } from "./acl/create-acl.ts";
import { deleteAclProcedure } from "./acl/delete-acl.ts";
import { listAclsProcedure } from "./acl/list-acls.ts";
import { testAclProcedure } from "./acl/test-acl.ts";
import { createApiKeyProcedure } from "./api-key/create-api-key.ts";
import { deleteApiKeyProcedure } from "./api-key/delete-api-key.ts";
import { getApiKeyProcedure } from "./api-key/get-api-key.ts";
import { listApiKeysProcedure } from "./api-key/list-api-keys.ts";
import { rotateApiKeyProcedure } from "./api-key/rotate-api-key.ts";
import { exportAuditEventsProcedure } from "./audit/export-audit-events.ts";
import { listAuditEventsProcedure } from "./audit/list-audit-events.ts";
import { getBenchmarkProcedure } from "./benchmark/get-benchmark.ts";
import { listBenchmarksProcedure } from "./benchmark/list-benchmarks.ts";
import { runBenchmarkProcedure } from "./benchmark/run-benchmark.ts";
import { listRegionsProcedure } from "./catalog/list-regions.ts";
import { listSizesProcedure } from "./catalog/list-sizes.ts";
import { listVersionsProcedure } from "./catalog/list-versions.ts";
import { getCatchUpProcedure } from "./catch-up/get-catch-up.ts";
import { listClientMetricsProcedure } from "./client-metrics/list-client-metrics.ts";
import { acceptDriftProcedure } from "./cluster/accept-drift.ts";
import { checkDriftProcedure } from "./cluster/check-drift.ts";
import { createClusterProcedure } from "./cluster/create-cluster.ts";
import { deleteClusterProcedure } from "./cluster/delete-cluster.ts";
import { getCaCertificateProcedure } from "./cluster/get-ca-certificate.ts";
import { getClusterProcedure } from "./cluster/get-cluster.ts";
import { getDriftProcedure } from "./cluster/get-drift.ts";
import { listBrokersProcedure } from "./cluster/list-brokers.ts";
import { listClustersProcedure } from "./cluster/list-clusters.ts";
import { pauseClusterProcedure } from "./cluster/pause-cluster.ts";
import { reconcileClusterProcedure } from "./cluster/reconcile-cluster.ts";
import { recoverClusterProcedure } from "./cluster/recover-cluster.ts";
import { restartClusterProcedure } from "./cluster/restart-cluster.ts";
import { restoreClusterProcedure } from "./cluster/restore-cluster.ts";
import { resumeClusterProcedure } from "./cluster/resume-cluster.ts";
import { updateClusterProcedure } from "./cluster/update-cluster.ts";
import { getConsumerGroupProcedure } from "./consumer-group/get-consumer-group.ts";
import { listConsumerGroupsProcedure } from "./consumer-group/list-consumer-groups.ts";
import { createEnvironmentProcedure } from "./environment/create-environment.ts";
import { deleteEnvironmentProcedure } from "./environment/delete-environment.ts";
import { getEnvironmentProcedure } from "./environment/get-environment.ts";
import { listEnvironmentsProcedure } from "./environment/list-environments.ts";
import { updateEnvironmentProcedure } from "./environment/update-environment.ts";
import { createInvitationProcedure } from "./invitation/create-invitation.ts";
import { deleteInvitationProcedure } from "./invitation/delete-invitation.ts";
import { getInvitationProcedure } from "./invitation/get-invitation.ts";
import { listInvitationsProcedure } from "./invitation/list-invitations.ts";
import { deleteMemberProcedure } from "./member/delete-member.ts";
import { getMemberProcedure } from "./member/get-member.ts";
import { leaveOrganizationProcedure } from "./member/leave-organization.ts";
import { listMembersProcedure } from "./member/list-members.ts";
import { updateMemberProcedure } from "./member/update-member.ts";
import { exportMetricsProcedure } from "./metrics/export-metrics.ts";
import { prometheusMetricsProcedure } from "./metrics/prometheus-metrics.ts";
import { queryMetricsProcedure } from "./metrics/query-metrics.ts";
import { approveOperationProcedure } from "./operation/approve-operation.ts";
import { cancelOperationProcedure } from "./operation/cancel-operation.ts";
import { getOperationProcedure } from "./operation/get-operation.ts";
import { getOperationPlanProcedure } from "./operation/get-operation-plan.ts";
import { listOperationsProcedure } from "./operation/list-operations.ts";
import { retryOperationProcedure } from "./operation/retry-operation.ts";
import { watchOperationProcedure } from "./operation/watch-operation.ts";
import { listOutgoingMailsProcedure } from "./outgoing-mail/list-outgoing-mails.ts";
import { openOutgoingMailProcedure } from "./outgoing-mail/open-outgoing-mail.ts";
import { createCallerFactory, router } from "./procedure.ts";
import { deleteQuotaProcedure } from "./quota/delete-quota.ts";
import { getQuotaUsageProcedure } from "./quota/get-quota-usage.ts";
import { listQuotasProcedure } from "./quota/list-quotas.ts";
import { setQuotaProcedure } from "./quota/set-quota.ts";
import { listRecordsProcedure } from "./record/list-records.ts";
import { produceRecordsProcedure } from "./record/produce-records.ts";
import { streamRecordsProcedure } from "./record/stream-records.ts";
import { createRoleProcedure } from "./role/create-role.ts";
import { deleteRoleProcedure } from "./role/delete-role.ts";
import { getRoleProcedure } from "./role/get-role.ts";
import { listRolesProcedure } from "./role/list-roles.ts";
import { updateRoleProcedure } from "./role/update-role.ts";
import { createServiceAccountProcedure } from "./service-account/create-service-account.ts";
import { createServiceAccountKeyProcedure } from "./service-account/create-service-account-key.ts";
import { deleteServiceAccountProcedure } from "./service-account/delete-service-account.ts";
import { getServiceAccountProcedure } from "./service-account/get-service-account.ts";
import { listServiceAccountsProcedure } from "./service-account/list-service-accounts.ts";
import { updateServiceAccountProcedure } from "./service-account/update-service-account.ts";
import { deleteOtherSessionsProcedure } from "./session/delete-other-sessions.ts";
import { deleteSessionProcedure } from "./session/delete-session.ts";
import { listSessionsProcedure } from "./session/list-sessions.ts";
import { deleteSingleSignOnProcedure } from "./single-sign-on/delete-single-sign-on.ts";
import { getSingleSignOnProcedure } from "./single-sign-on/get-single-sign-on.ts";
import { setSingleSignOnProcedure } from "./single-sign-on/set-single-sign-on.ts";
import { createTopicProcedure } from "./topic/create-topic.ts";
import { deleteTopicProcedure } from "./topic/delete-topic.ts";
import { getTopicProcedure } from "./topic/get-topic.ts";
import { listTopicsProcedure } from "./topic/list-topics.ts";
import { updateTopicProcedure } from "./topic/update-topic.ts";
import { getTuningProcedure } from "./tuning/get-tuning.ts";
import { listTuningChangesProcedure } from "./tuning/list-tuning-changes.ts";
import { revertTuningChangeProcedure } from "./tuning/revert-tuning-change.ts";
import { updateTuningProcedure } from "./tuning/update-tuning.ts";
import { createUserProcedure } from "./user/create-user.ts";
import { deleteUserProcedure } from "./user/delete-user.ts";
import { getUserProcedure } from "./user/get-user.ts";
import { listUsersProcedure } from "./user/list-users.ts";
import { rotateUserProcedure } from "./user/rotate-user.ts";
import { updateUserProcedure } from "./user/update-user.ts";

/** Every procedure at the name of its contract. */
export const appRouter = router({
  acl: router({
    create: createAclProcedure,
    applyTemplate: applyAclTemplateProcedure,
    list: listAclsProcedure,
    test: testAclProcedure,
    delete: deleteAclProcedure,
  }),
  account: router({ me: getMeProcedure, leave: leaveOrganizationProcedure }),
  apiKey: router({
    create: createApiKeyProcedure,
    list: listApiKeysProcedure,
    get: getApiKeyProcedure,
    rotate: rotateApiKeyProcedure,
    delete: deleteApiKeyProcedure,
  }),
  auditEvent: router({ list: listAuditEventsProcedure, export: exportAuditEventsProcedure }),
  benchmark: router({
    run: runBenchmarkProcedure,
    list: listBenchmarksProcedure,
    get: getBenchmarkProcedure,
  }),
  catchUp: router({ get: getCatchUpProcedure }),
  clientMetrics: router({ list: listClientMetricsProcedure }),
  cluster: router({
    create: createClusterProcedure,
    list: listClustersProcedure,
    get: getClusterProcedure,
    caCertificate: getCaCertificateProcedure,
    update: updateClusterProcedure,
    pause: pauseClusterProcedure,
    resume: resumeClusterProcedure,
    restart: restartClusterProcedure,
    brokers: listBrokersProcedure,
    recover: recoverClusterProcedure,
    restore: restoreClusterProcedure,
    drift: getDriftProcedure,
    checkDrift: checkDriftProcedure,
    reconcile: reconcileClusterProcedure,
    acceptDrift: acceptDriftProcedure,
    delete: deleteClusterProcedure,
  }),
  consumerGroup: router({ list: listConsumerGroupsProcedure, get: getConsumerGroupProcedure }),
  environment: router({
    create: createEnvironmentProcedure,
    list: listEnvironmentsProcedure,
    get: getEnvironmentProcedure,
    update: updateEnvironmentProcedure,
    delete: deleteEnvironmentProcedure,
  }),
  invitation: router({
    create: createInvitationProcedure,
    list: listInvitationsProcedure,
    get: getInvitationProcedure,
    delete: deleteInvitationProcedure,
  }),
  member: router({
    list: listMembersProcedure,
    get: getMemberProcedure,
    update: updateMemberProcedure,
    delete: deleteMemberProcedure,
  }),
  metrics: router({
    query: queryMetricsProcedure,
    export: exportMetricsProcedure,
    prometheus: prometheusMetricsProcedure,
  }),
  operation: router({
    get: getOperationProcedure,
    list: listOperationsProcedure,
    watch: watchOperationProcedure,
    plan: getOperationPlanProcedure,
    approve: approveOperationProcedure,
    cancel: cancelOperationProcedure,
    retry: retryOperationProcedure,
  }),
  outgoingMail: router({
    list: listOutgoingMailsProcedure,
    open: openOutgoingMailProcedure,
  }),
  quota: router({
    set: setQuotaProcedure,
    list: listQuotasProcedure,
    delete: deleteQuotaProcedure,
    usage: getQuotaUsageProcedure,
  }),
  record: router({
    list: listRecordsProcedure,
    produce: produceRecordsProcedure,
    stream: streamRecordsProcedure,
  }),
  region: router({ list: listRegionsProcedure }),
  accessReview: router({
    get: getAccessReviewProcedure,
    create: createAccessReviewProcedure,
    export: exportAccessReviewProcedure,
  }),
  role: router({
    create: createRoleProcedure,
    list: listRolesProcedure,
    get: getRoleProcedure,
    update: updateRoleProcedure,
    delete: deleteRoleProcedure,
  }),
  serviceAccount: router({
    create: createServiceAccountProcedure,
    list: listServiceAccountsProcedure,
    get: getServiceAccountProcedure,
    update: updateServiceAccountProcedure,
    delete: deleteServiceAccountProcedure,
  }),
  serviceAccountKey: router({ create: createServiceAccountKeyProcedure }),
  session: router({
    list: listSessionsProcedure,
    delete: deleteSessionProcedure,
    deleteOthers: deleteOtherSessionsProcedure,
  }),
  singleSignOn: router({
    get: getSingleSignOnProcedure,
    set: setSingleSignOnProcedure,
    delete: deleteSingleSignOnProcedure,
  }),
  size: router({ list: listSizesProcedure }),
  topic: router({
    create: createTopicProcedure,
    list: listTopicsProcedure,
    get: getTopicProcedure,
    update: updateTopicProcedure,
    delete: deleteTopicProcedure,
  }),
  tuning: router({
    get: getTuningProcedure,
    update: updateTuningProcedure,
    history: listTuningChangesProcedure,
    revert: revertTuningChangeProcedure,
  }),
  user: router({
    create: createUserProcedure,
    list: listUsersProcedure,
    get: getUserProcedure,
    update: updateUserProcedure,
    rotate: rotateUserProcedure,
    delete: deleteUserProcedure,
  }),
  version: router({ list: listVersionsProcedure }),
});

export type AppRouter = typeof appRouter;

/** Calls procedures within this process; throws what they throw. */
export const createCaller = createCallerFactory(appRouter);
