resource "millrace_cluster" "with_topic" {
  name                = "with-topic"
  deletion_protection = false
}

resource "millrace_topic" "clicks" {
  cluster_id = millrace_cluster.with_topic.id
  name       = "clicks"
}

data "millrace_topic" "clicks" {
  cluster_id = millrace_cluster.with_topic.id
  name       = millrace_topic.clicks.name
}
