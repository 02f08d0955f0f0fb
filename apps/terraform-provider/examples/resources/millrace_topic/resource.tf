resource "millrace_cluster" "topic_example" {
  name                = "topic-example"
  deletion_protection = false
}

resource "millrace_topic" "payments" {
  cluster_id = millrace_cluster.topic_example.id
  name       = "payments"
  partitions = 6

  # Values are strings: 64-bit numbers stay whole.
  configs = {
    "retention.ms"   = "604800000"
    "cleanup.policy" = "delete"
  }
}
