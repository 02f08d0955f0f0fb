/**
 * An AWS client whose commands are answered by `send`. It is an instance of the class that paginators check.
 */
export function answering<C>(Client: { prototype: C }, send: (command: never) => unknown): C {
  const value = async (command: never) => send(command);
  return Object.create(Client.prototype as object, { send: { value } }) as C;
}
