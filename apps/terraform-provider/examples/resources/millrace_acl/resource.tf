resource "millrace_cluster" "acl_example" {
  name                = "acl-example"
  deletion_protection = false
}

# What a producer of the topic orders needs.
resource "millrace_acl" "producer" {
  for_each = toset(["write", "describe", "create"])

  cluster_id    = millrace_cluster.acl_example.id
  principal     = "User:alice"
  resource_type = "topic"
  resource_name = "orders"
  operation     = each.key
}

# Every topic that begins with audit. is read-only for everybody.
resource "millrace_acl" "audit" {
  cluster_id    = millrace_cluster.acl_example.id
  principal     = "User:*"
  resource_type = "topic"
  resource_name = "audit."
  pattern_type  = "prefixed"
  operation     = "write"
  permission    = "deny"
}
