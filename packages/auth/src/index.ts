export { apiKeyHash, newApiKeySecret } from "./api-key-secret.ts";
export {
  type Authenticator,
  authenticate,
  type Credentials,
  ORGANIZATION_HEADER,
} from "./authenticate.ts";
export { authorize } from "./authorize.ts";
export {
  AUTH_BASE_PATH,
  CLIENT_IP_HEADER,
  createIdentity,
  type Identity,
  type IdentityOptions,
} from "./identity.ts";
