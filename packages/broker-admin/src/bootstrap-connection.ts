import { type Admin, type Connection, kGetBootstrapConnection } from "@platformatic/kafka";

/** A connection for messages that the client library has no method for. */
export function bootstrapConnection(admin: Admin): Promise<Connection> {
  return new Promise((resolve, reject) => {
    admin[kGetBootstrapConnection]((error, connection) => {
      if (connection) resolve(connection);
      else reject(error);
    });
  });
}
