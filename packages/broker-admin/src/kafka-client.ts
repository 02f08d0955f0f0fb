import type { ConnectionPool } from "@platformatic/kafka";

/**
 * Returns the client, made safe against brokers that die while it signs in. Every client of the library is made
 * through this function.
 *
 * A connection that is reset during SASL emits `error` twice: for the socket, and for the request that failed
 * with it. The library's own listeners are gone after the first, and an `error` without a listener ends the process.
 * The call itself fails by its callback.
 */
export function survivingResets<C extends { readonly connections: ConnectionPool }>(client: C): C {
  client.connections.on("connecting", ({ connection }) => {
    connection.on("error", () => {});
  });
  return client;
}
