/**
 * A client of AWS whose every command `send` answers. It is of the class that the paginators ask for.
 */
export function answering<C>(Client: { prototype: C }, send: (command: never) => unknown): C {
  const value = async (command: never) => send(command);
  return Object.create(Client.prototype as object, { send: { value } }) as C;
}
