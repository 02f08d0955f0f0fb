/** Next calls `register` once, before the first request (its file convention). */
export { recordPeerAddresses as register } from "./api/peer-address.ts";
