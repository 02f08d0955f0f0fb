# An environment, a cluster and fifty topics, from nothing.
terraform {
  required_version = ">= 1.11"
  required_providers {
    millrace = {
      source = "millrace/millrace"
    }
  }
}

provider "millrace" {}

variable "region" {
  type        = string
  description = "Where the cluster runs."
  default     = "local"
}

variable "topics" {
  type        = number
  description = "How many topics the cluster gets."
  default     = 50
}

resource "millrace_environment" "shop" {
  name = "shop"
}

resource "millrace_cluster" "orders" {
  environment_id = millrace_environment.shop.id
  name           = "orders"
  region         = var.region
  size           = "dev"

  # An example is made to be destroyed, at once and with its data: an environment stays while the data of
  # a cluster is kept. Leave both out of what you keep.
  deletion_protection = false
  retain_days         = 0
}

resource "millrace_topic" "events" {
  count = var.topics

  cluster_id = millrace_cluster.orders.id
  name       = format("events-%03d", count.index)
  partitions = 3

  configs = {
    "retention.ms" = "86400000"
  }
}

output "bootstrap_servers" {
  value = millrace_cluster.orders.endpoints[0].bootstrap_servers
}
