resource "millrace_cluster" "looked_up" {
  name                = "looked-up"
  deletion_protection = false
}

data "millrace_cluster" "looked_up" {
  id = millrace_cluster.looked_up.id
}

output "where_clients_connect" {
  value = data.millrace_cluster.looked_up.endpoints[0].bootstrap_servers
}
