resource "millrace_cluster" "operated" {
  name                = "operated"
  deletion_protection = false
}

data "millrace_operation" "last" {
  id = millrace_cluster.operated.last_operation_id
}

output "how_it_went" {
  value = data.millrace_operation.last.phase
}
