import type { ApiKeyId, EnvironmentId, OrganizationId, UserId } from "./id.ts";
import type { Role } from "./role.ts";

/** A tenant. */
export interface Organization {
  readonly id: OrganizationId;
  readonly name: string;
  readonly slug: string;
  readonly createdAt: Date;
}

export interface User {
  readonly id: UserId;
  readonly email: string;
  readonly name: string;
  readonly createdAt: Date;
}

/** A user's place in a tenant. */
export interface Membership {
  readonly organizationId: OrganizationId;
  readonly userId: UserId;
  readonly role: Role;
}

/** A tenant's group of clusters; cluster names are unique within it. */
export interface Environment {
  readonly id: EnvironmentId;
  readonly organizationId: OrganizationId;
  readonly name: string;
  readonly createdAt: Date;
}

/** An API key without its secret, which is shown once and stored only as a hash. */
export interface ApiKey {
  readonly id: ApiKeyId;
  readonly organizationId: OrganizationId;
  readonly name: string;
  readonly role: Role;
  /** First characters of the secret, so that a person can tell keys apart. */
  readonly hint: string;
  readonly createdBy: UserId | undefined;
  readonly createdAt: Date;
  readonly expiresAt: Date | undefined;
  readonly lastUsedAt: Date | undefined;
  readonly revokedAt: Date | undefined;
}
