/** A listener of a cluster, and how to sign in there. */
export interface KafkaAddress {
  /** `host:port[,host:port…]` */
  readonly bootstrapServers: string;
  /** Absent where the listener asks for nothing. */
  readonly signIn?: KafkaSignIn | undefined;
}

/** How to sign in at a listener with TLS and SCRAM. */
export interface KafkaSignIn {
  /** In PEM: what the broker's certificate has to be issued by. */
  readonly rootCertificate: string;
  readonly user: string;
  /** A secret: never log it. */
  readonly password: string;
}
