import { IdentityProviders, OutgoingRequests, SecretSeal } from "@millrace/auth";
import type { Database, TenantDatabase } from "@millrace/db";
import { type AwsRegion, type Clock, type OrganizationId, systemClock } from "@millrace/domain";
import type { ClusterPlanner, LocalDriver } from "@millrace/provisioner";
import type { BrokerHttpAccess } from "./broker-access.ts";
import { BrokerCalls } from "./broker-calls.ts";
import { PageTokens } from "./page-token.ts";
import { PlanSlots } from "./planning/plan-slots.ts";
import { RequestSlots } from "./request-slots.ts";

/** What callers' use cases ask of the places where brokers run. */
export interface RegionDrivers {
  /** This machine. */
  readonly local: Pick<LocalDriver, "plan" | "allocate" | "rootCertificate">;
  /** Plans clusters on AWS without an account; undefined where nothing here can. */
  readonly awsPlanner: ClusterPlanner | undefined;
  /** Whether clusters can be made on this machine: not where the control plane runs on AWS. */
  readonly localAvailable: boolean;
  /**
   * The AWS region that clusters can be made in: the installation's, whose bucket has the broker's builds. Undefined
   * where there is no account.
   */
  readonly awsRegion: AwsRegion | undefined;
}

/** What every use case that answers a caller works with; `db` has the rows of the caller's tenant alone. */
export interface Core extends Tools {
  readonly db: TenantDatabase;
  /** Awaited right before a broker is told to change something, once all checks have passed. */
  readonly beforeBrokerChange?: () => Promise<void>;
}

/** What is there before the tenant is known. */
export interface CoreParts extends Tools {
  readonly db: Database;
}

interface Tools {
  readonly clock: Clock;
  readonly pageTokens: PageTokens;
  readonly brokerHttp: BrokerHttpAccess;
  readonly drivers: RegionDrivers;
  readonly planSlots: PlanSlots;
  readonly requestSlots: RequestSlots;
  readonly brokerCalls: BrokerCalls;
  readonly identityProviders: IdentityProviders;
  /** Seals the client secrets of identity providers. */
  readonly ssoSecrets: SecretSeal;
  /** Seals the texts of mails, which hold links that grant access. */
  readonly mailTexts: SecretSeal;
  /** Where browsers find the console. */
  readonly consoleUrl: string;
}

export interface CoreOptions {
  readonly db: Database;
  /** Signs page tokens and seals secrets of tenants; at least 32 characters. */
  readonly secret: string;
  /** Secrets that it replaced, newest first: what they sealed still opens. */
  readonly replacedSecrets?: readonly string[];
  /** Asks identity providers; by default none is on a private address, and none sends anybody back. */
  readonly identityProviders?: IdentityProviders;
  /** Where browsers find the console, for links in mails. */
  readonly consoleUrl?: string;
  readonly clock?: Clock;
  readonly brokerHttp: BrokerHttpAccess;
  readonly drivers: RegionDrivers;
  /** Other bounds than usual, for tests. */
  readonly brokerCalls?: BrokerCalls;
}

/** Seals the client secrets of identity providers. */
export function ssoSecretSeal(secret: string, replaced?: readonly string[]): SecretSeal {
  return new SecretSeal(secret, "millrace sso client secret", replaced);
}

export function createCore(options: CoreOptions): CoreParts {
  const { db, secret, clock, brokerHttp, drivers, replacedSecrets } = options;
  return {
    db,
    clock: clock ?? systemClock,
    pageTokens: new PageTokens(secret),
    brokerHttp,
    drivers,
    planSlots: new PlanSlots(),
    requestSlots: new RequestSlots(),
    brokerCalls: options.brokerCalls ?? new BrokerCalls(),
    identityProviders:
      options.identityProviders ??
      new IdentityProviders("https://localhost", new OutgoingRequests()),
    ssoSecrets: ssoSecretSeal(secret, replacedSecrets),
    mailTexts: new SecretSeal(secret, "millrace outgoing mail", replacedSecrets),
    consoleUrl: options.consoleUrl ?? "https://localhost",
  };
}

/** The core as use cases of this tenant see it: its rows alone, and brokers within the tenant's bounds. */
export function coreOf(parts: CoreParts, tenant: OrganizationId): Core {
  return {
    ...parts,
    db: parts.db.tenant(tenant),
    async brokerHttp(cluster) {
      parts.brokerCalls.take(tenant);
      return await parts.brokerHttp(cluster);
    },
  };
}
