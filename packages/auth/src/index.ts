export { isAddressIn, isAddressRange, isRangeIn } from "./address-range.ts";
export { apiKeyHash, newApiKeySecret } from "./api-key-secret.ts";
export { type Authenticator, assertOwnPage, authenticate } from "./authenticate.ts";
export { assertRecentProof, authorize } from "./authorize.ts";
export { DeferredWrites } from "./deferred-writes.ts";
export { AUTH_BASE_PATH, CLIENT_IP_HEADER, createIdentity, type Identity } from "./identity.ts";
export { invitationTokenHash, newInvitationToken } from "./invitation-token.ts";
