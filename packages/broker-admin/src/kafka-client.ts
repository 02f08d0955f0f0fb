/** How clients of the Kafka library connect to a broker. */
import type { ConnectionPool } from "@platformatic/kafka";

/** A listener of a cluster, and how to sign in there. */
export interface KafkaAddress {
  /** `host:port[,host:port…]` */
  readonly bootstrapServers: string;
  /** Absent where the listener asks for nothing. */
  readonly signIn?: KafkaSignIn | undefined;
  /** For each request; `KafkaAdmin` has a default. */
  readonly timeoutMs?: number;
}

/** How to sign in at a listener with TLS and SCRAM. */
export interface KafkaSignIn {
  /** In PEM: what the broker's certificate has to be issued by. */
  readonly rootCertificate: string;
  readonly user: string;
  /** A secret: never log it. */
  readonly password: string;
}

/** Options of the Kafka library for an address. */
export function connectionOptions({ bootstrapServers, signIn }: KafkaAddress) {
  return {
    bootstrapBrokers: bootstrapServers.split(","),
    ...(signIn && {
      tls: { ca: signIn.rootCertificate },
      sasl: {
        mechanism: "SCRAM-SHA-256",
        username: signIn.user,
        password: signIn.password,
      } as const,
    }),
  };
}

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
