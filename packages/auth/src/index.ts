export { isAddressIn, isAddressRange, isRangeIn } from "./address-range.ts";
export { apiKeyHash, newApiKeySecret } from "./api-key-secret.ts";
export { type Authenticator, assertOwnPage, authenticate } from "./authenticate.ts";
export { assertRecentProof, authorize } from "./authorize.ts";
export { DeferredWrites } from "./deferred-writes.ts";
export { AUTH_BASE_PATH, CLIENT_IP_HEADER, createIdentity, type Identity } from "./identity.ts";
export {
  IdentityProviders,
  type ProviderAccess,
  type VouchedPerson,
} from "./identity-providers.ts";
export { invitationTokenHash, newInvitationToken } from "./invitation-token.ts";
export { OutgoingRequestRefused, OutgoingRequests } from "./outgoing-requests.ts";
export { SecretSeal } from "./secret-seal.ts";
export { SSO_ATTEMPT_SECONDS, type SsoAttempt, SsoAttempts } from "./sso-attempt.ts";
