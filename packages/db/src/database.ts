import type { Changer, OperationId, OrganizationId } from "@millrace/domain";
import { AccessReviewRepository } from "./access-review-repository.ts";
import { ApiKeyRepository } from "./api-key-repository.ts";
import { AuditRepository } from "./audit-repository.ts";
import { BenchmarkRepository } from "./benchmark-repository.ts";
import { BrokerLinkRepository } from "./broker-link-repository.ts";
import { type Client, createClient } from "./client.ts";
import { ClusterRepository } from "./cluster-repository.ts";
import { assertConfined } from "./confinement.ts";
import { CustomRoleRepository } from "./custom-role-repository.ts";
import { type Fleet, fleetIn } from "./fleet.ts";
import { GatewayRepository } from "./gateway-repository.ts";
import type { PrismaClient } from "./generated/client.ts";
import { IdempotencyRepository } from "./idempotency-repository.ts";
import { InvitationRepository } from "./invitation-repository.ts";
import { MemberRepository } from "./member-repository.ts";
import { MetricRepository } from "./metric-repository.ts";
import { OperationJournal } from "./operation-journal.ts";
import { OperationPlanRepository } from "./operation-plan-repository.ts";
import { OperationQueue } from "./operation-queue.ts";
import { OperationRepository } from "./operation-repository.ts";
import { OperationSignal } from "./operation-signal.ts";
import { OrganizationRepository } from "./organization-repository.ts";
import { OutgoingMailRepository } from "./outgoing-mail-repository.ts";
import { PlatformRepository } from "./platform-repository.ts";
import { RateLimitRepository } from "./rate-limit-repository.ts";
import { ScrapeLeaseRepository } from "./scrape-lease-repository.ts";
import { SecondFactorRepository } from "./second-factor-repository.ts";
import { ServiceAccountRepository } from "./service-account-repository.ts";
import { SessionRepository } from "./session-repository.ts";
import { SsoConnectionRepository } from "./sso-connection-repository.ts";
import { eachIn, tenantScope } from "./tenancy.ts";
import { TerraformStateRepository } from "./terraform-state-repository.ts";
import { TuningRepository } from "./tuning-repository.ts";

const REPOSITORIES = {
  audit: AuditRepository,
  organizations: OrganizationRepository,
  members: MemberRepository,
  customRoles: CustomRoleRepository,
  invitations: InvitationRepository,
  outgoingMails: OutgoingMailRepository,
  accessReviews: AccessReviewRepository,
  sessions: SessionRepository,
  ssoConnections: SsoConnectionRepository,
  apiKeys: ApiKeyRepository,
  serviceAccounts: ServiceAccountRepository,
  clusters: ClusterRepository,
  brokerLinks: BrokerLinkRepository,
  operations: OperationRepository,
  journal: OperationJournal,
  operationPlans: OperationPlanRepository,
  terraformStates: TerraformStateRepository,
  idempotency: IdempotencyRepository,
  metrics: MetricRepository,
  scrapeLeases: ScrapeLeaseRepository,
  tuning: TuningRepository,
  benchmarks: BenchmarkRepository,
  platform: PlatformRepository,
} as const;

/** All repositories of one tenant. */
export type Repositories = {
  readonly [Name in keyof typeof REPOSITORIES]: InstanceType<(typeof REPOSITORIES)[Name]>;
};

export interface Transaction extends Repositories {
  /** Has the operation delivered to a worker when the transaction commits. */
  deliver(id: OperationId): Promise<void>;
  /** The tables of users within this transaction. */
  readonly identityStore: IdentityStore;
  /** Who asked for what it does; undefined where the worker does it by itself. */
  readonly actor?: Changer | undefined;
}

/** One tenant's rows: those of the others do not exist here. */
export interface TenantDatabase extends Repositories {
  /** Runs `work` in one transaction: it commits when `work` resolves, and leaves no trace else. */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** A transaction that only makes way for the one that changes what the caller asked for. */
  preparation<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  readonly operationSignal: OperationSignal;
}

/** What a request asks before its tenant is known. */
export type SignIn = Pick<ApiKeyRepository, "findBySecret"> &
  Pick<OrganizationRepository, "membershipsOf" | "findBySlug"> &
  Pick<InvitationRepository, "findByToken"> & {
    readonly touchSession: SessionRepository["touch"];
    readonly confirmSession: SessionRepository["confirm"];
    readonly forgetProofs: SessionRepository["forgetProofs"];
    readonly removeSession: SessionRepository["remove"];
    readonly findSsoOrganization: SsoConnectionRepository["findOrganization"];
    readonly ssoOrganizationsAfter: SsoConnectionRepository["organizationsAfter"];
  };

/**
 * The tables of users, sessions and credentials, for the one library that owns their meaning.
 * Opaque on purpose: nothing else may look inside.
 */
export interface IdentityStore {
  readonly kind: "identity-store";
}

export interface Database {
  tenant(id: OrganizationId): TenantDatabase;
  readonly signIn: SignIn;
  /** What platform operators may ask of every tenant. */
  readonly platform: PlatformRepository;
  /** What a worker looks for in every tenant. The API's role has no right to it. */
  readonly fleet: Fleet;
  /** What gateways know of every tenant's brokers. No other role may write it. */
  readonly gateways: GatewayRepository;
  /** Uses of second factors, which belong to people, not to tenants. */
  readonly secondFactors: SecondFactorRepository;
  /** Counts that belong to no tenant. */
  readonly rateLimits: RateLimitRepository;
  readonly queue: OperationQueue;
  readonly operationSignal: OperationSignal;
  readonly identityStore: IdentityStore;
  /** Throws where the database does not answer. */
  ping(): Promise<void>;
  /** Throws `RoleUnconfined` where row-level security would not bind the role of this connection. */
  assertConfined(): Promise<void>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  /** Told of faults of the background connections, which recover by themselves. */
  readonly onError?: (error: Error) => void;
  readonly connectionsMax?: number;
}

/** Opens the database of a migrated control plane. Connections are made as they are needed. */
export function openDatabase(options: DatabaseOptions): Database {
  const client = createClient(options.url, options.connectionsMax);
  const queue = new OperationQueue(options.url, options.onError ?? (() => {}));
  const operationSignal = new OperationSignal(options.url);
  return {
    tenant: (id) => tenantDatabase(client, queue, operationSignal, id),
    signIn: signInOf(client),
    platform: new PlatformRepository(client),
    fleet: fleetIn(client),
    gateways: new GatewayRepository(client),
    secondFactors: new SecondFactorRepository(client),
    rateLimits: new RateLimitRepository(client),
    queue,
    operationSignal,
    identityStore: client as unknown as IdentityStore,
    async ping() {
      await client.$queryRaw`SELECT 1`;
    },
    assertConfined: () => assertConfined(client),
    async close() {
      await Promise.all([queue.stop(), operationSignal.close()]);
      await client.$disconnect();
    },
  };
}

function tenantDatabase(
  client: PrismaClient,
  queue: OperationQueue,
  operationSignal: OperationSignal,
  id: OrganizationId,
): TenantDatabase {
  const scope = tenantScope(client, id);
  const transaction: TenantDatabase["transaction"] = (work) =>
    scope((inner) =>
      work(
        Object.assign(
          made((Repository) => new Repository(inner)),
          {
            deliver: (operation: OperationId) => queue.send(operation, inner),
            identityStore: inner as unknown as IdentityStore,
          },
        ),
      ),
    );
  return Object.assign(
    made((Repository) => eachIn(scope, Repository)),
    { transaction, preparation: transaction, operationSignal },
  );
}

/** Every repository, as `make` makes it when it is first used: a request uses two or three. */
function made(make: (Repository: new (client: Client) => object) => object): Repositories {
  const repositories = {};
  for (const [name, Repository] of Object.entries(REPOSITORIES)) {
    let repository: object | undefined;
    Object.defineProperty(repositories, name, {
      enumerable: true,
      get: () => {
        repository ??= make(Repository);
        return repository;
      },
    });
  }
  return repositories as Repositories;
}

function signInOf(client: PrismaClient): SignIn {
  const apiKeys = new ApiKeyRepository(client);
  const organizations = new OrganizationRepository(client);
  const invitations = new InvitationRepository(client);
  const sessions = new SessionRepository(client);
  const ssoConnections = new SsoConnectionRepository(client);
  return {
    findBySecret: (secretHash) => apiKeys.findBySecret(secretHash),
    membershipsOf: (userId) => organizations.membershipsOf(userId),
    findBySlug: (slug) => organizations.findBySlug(slug),
    touchSession: (id, now) => sessions.touch(id, now),
    confirmSession: (id, now) => sessions.confirm(id, now),
    forgetProofs: (userId, kept) => sessions.forgetProofs(userId, kept),
    removeSession: (userId, id) => sessions.remove(userId, id),
    findSsoOrganization: (slug, domain) => ssoConnections.findOrganization(slug, domain),
    ssoOrganizationsAfter: (after, limit) => ssoConnections.organizationsAfter(after, limit),
    findByToken: (tokenHash) => invitations.findByToken(tokenHash),
  };
}
