resource "millrace_environment" "cluster_example" {
  name = "cluster-example"
}

resource "millrace_cluster" "orders" {
  environment_id = millrace_environment.cluster_example.id
  name           = "orders"
  region         = "local"
  size           = "dev"

  # The default is true: a plan that deletes the cluster is then an error.
  deletion_protection = false

  # Deletes the data together with the cluster. By default they are kept for 7 days, and so is the
  # environment.
  retain_days = 0

  labels = {
    team = "payments"
  }

  timeouts = {
    create = "30m"
    delete = "30m"
  }

  # A cluster whose creation fails is kept, and the next apply retries it in place. This makes the
  # apply itself fail, too.
  lifecycle {
    postcondition {
      condition     = self.state == "RUNNING"
      error_message = "The cluster is ${self.state}; see operation ${coalesce(self.last_operation_id, "-")}."
    }
  }
}

output "bootstrap_servers" {
  value = millrace_cluster.orders.endpoints[0].bootstrap_servers
}
