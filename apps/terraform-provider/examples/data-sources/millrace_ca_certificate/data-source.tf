resource "millrace_cluster" "trusted" {
  name                = "trusted"
  deletion_protection = false
}

data "millrace_ca_certificate" "trusted" {
  cluster_id = millrace_cluster.trusted.id
}

# Clients with TLS connect to the last endpoint and trust this certificate.
output "ca_certificate" {
  value = data.millrace_ca_certificate.trusted.pem
}
