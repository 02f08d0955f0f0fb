import { X509Certificate } from "node:crypto";
import { ProvisionError } from "../cluster-driver.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/**
 * The authority that the certificates of a region's databases are from, in PEM: the one that stacks name as
 * `rds-ca-rsa2048-g1`. `bundle` has those of all regions, as AWS publishes them
 * (truststore.pki.rds.amazonaws.com/global/global-bundle.pem). Throws `ProvisionError` `unconfigured`.
 */
export function databaseAuthority(bundle: string | undefined, region: string): string {
  const name = `Amazon RDS ${region} Root CA RSA2048 G1`;
  const found = (bundle?.match(CERTIFICATE) ?? []).find((pem) => isOf(pem, name));
  if (found !== undefined) return `${found.replaceAll("\r", "")}\n`;
  const message =
    bundle === undefined
      ? "MILLRACE_AWS_DATABASE_CA is not set: it names the file with the authorities of AWS's databases"
      : `the file that MILLRACE_AWS_DATABASE_CA names has no certificate of ${name}`;
  throw new ProvisionError("unconfigured", message);
}

function isOf(pem: string, name: string): boolean {
  const { subject } = new X509Certificate(pem);
  return subject.split("\n").includes(`CN=${name}`);
}
