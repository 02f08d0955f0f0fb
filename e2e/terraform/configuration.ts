/** Configurations that the tests apply. */

const REQUIRED = `terraform {
  required_version = ">= 1.11"
  required_providers {
    millrace = { source = "millrace/millrace" }
  }
}
`;

export interface Wanted {
  readonly name: string;
  readonly topics: number;
  readonly isProtected?: boolean;
  /** One where nothing is named. */
  readonly brokers?: number;
  /** Data that is kept would keep the environment from being destroyed with its cluster. */
  readonly keepsData?: boolean;
  /** Of the provider block. */
  readonly requestsPerSecond?: number;
  readonly secretFile?: string;
}

/** An environment, a cluster in it, topics on it, and a key where a file for it is named. */
export function configuration(wanted: Wanted): string {
  const pace =
    wanted.requestsPerSecond === undefined
      ? ""
      : `\n  requests_per_second = ${wanted.requestsPerSecond}\n`;
  const retention = wanted.keepsData ? "" : "  retain_days         = 0\n";
  const key =
    wanted.secretFile === undefined
      ? ""
      : `
resource "millrace_api_key" "reader" {
  name        = "${wanted.name}"
  role        = "viewer"
  secret_file = "${wanted.secretFile}"
}
`;
  return `${REQUIRED}
provider "millrace" {${pace}}

resource "millrace_environment" "this" {
  name = "${wanted.name}"
}

resource "millrace_cluster" "this" {
  environment_id      = millrace_environment.this.id
  name                = "${wanted.name}"
  region              = "local"
  size                = "dev"
  brokers             = ${wanted.brokers ?? 1}
  deletion_protection = ${wanted.isProtected ?? false}
${retention}}

resource "millrace_topic" "events" {
  for_each   = toset([for n in range(${wanted.topics}) : format("events-%03d", n)])
  cluster_id = millrace_cluster.this.id
  name       = each.key
  partitions = 1
  configs    = { "retention.ms" = "604800000" }
}
${key}`;
}

/** The same resources taken over from ids instead of made. */
export function imports(ids: { environment: string; cluster: string; topics: number }): string {
  return `
import {
  to = millrace_environment.this
  id = "${ids.environment}"
}
import {
  to = millrace_cluster.this
  id = "${ids.cluster}"
}
import {
  for_each = toset([for n in range(${ids.topics}) : format("events-%03d", n)])
  to       = millrace_topic.events[each.key]
  id       = "${ids.cluster}/\${each.key}"
}
`;
}
