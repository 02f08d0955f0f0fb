/** A gateway as far as a slot's broker can tell: it takes its link, and calls the admin HTTP on it. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type ClientHttp2Session, connect } from "node:http2";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { CertificateAuthority } from "../../../packages/provisioner/src/local/certificate-authority.ts";
import { ServerCertificates } from "../../../packages/provisioner/src/local/server-certificates.ts";

const HOST = "127.0.0.1";
const PROTOCOL = "millrace-link/1";
const SWITCHING = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${PROTOCOL}\r\n\r\n`;

export interface SlotGateway {
  readonly port: number;
  /** The root of its certificate, in PEM. */
  readonly root: string;
  /** The credentials that brokers have shown, oldest first. */
  readonly shown: readonly string[];
  /** Status of a request on the newest link. */
  status(path: string): Promise<number | undefined>;
  /** Ends the links; brokers dial again. */
  hangUp(): void;
  stop(): Promise<void>;
}

/** `folder` gets the certificate and its authority; `accepts` says which credentials are valid. */
export async function startGateway(
  folder: string,
  accepts: (credential: string) => boolean,
): Promise<SlotGateway> {
  const authority = new CertificateAuthority(folder);
  const certificateFile = join(folder, "gateway.pem");
  await new ServerCertificates(authority).renew({ folder, certificateFile }, HOST);
  const pem = await readFile(certificateFile);
  const shown: string[] = [];
  const links: ClientHttp2Session[] = [];
  const server = createServer({ cert: pem, key: pem });
  server.on("upgrade", (request, socket) => {
    const credential = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
    shown.push(credential);
    if (request.headers.upgrade !== PROTOCOL || !accepts(credential)) {
      socket.end("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      return;
    }
    // HTTP/2 may take the socket over only when nothing is being written to it.
    socket.write(SWITCHING, () => {
      const link = connect("http://broker", { createConnection: () => socket });
      link.on("error", () => {});
      links.push(link);
    });
  });
  await once(server.listen(0, HOST), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    root: (await authority.root()) ?? "",
    shown,
    async status(path) {
      const link = links.at(-1);
      if (link === undefined || link.destroyed) return undefined;
      const stream = link.request({ ":path": path });
      const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
      stream.close();
      return Number(headers[":status"]);
    },
    hangUp() {
      for (const link of links.splice(0)) link.destroy();
    },
    async stop() {
      for (const link of links.splice(0)) link.destroy();
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
}
