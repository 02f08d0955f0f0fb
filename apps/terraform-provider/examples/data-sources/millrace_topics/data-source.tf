resource "millrace_cluster" "listed" {
  name                = "listed"
  deletion_protection = false
}

data "millrace_topics" "all" {
  cluster_id = millrace_cluster.listed.id
}

output "partitions" {
  value = sum(concat([0], data.millrace_topics.all.topics[*].partitions))
}
