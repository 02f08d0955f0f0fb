resource "millrace_cluster" "quota_example" {
  name                = "quota-example"
  deletion_protection = false
}

resource "millrace_quota" "alice" {
  cluster_id = millrace_cluster.quota_example.id
  user       = "alice"

  producer_byte_rate = 10485760
  consumer_byte_rate = 20971520
}

# Users without a quota of their own.
resource "millrace_quota" "others" {
  cluster_id = millrace_cluster.quota_example.id
  user       = "<default>"

  request_percentage = 50
}
