data "millrace_clusters" "all" {}

output "clusters" {
  value = { for cluster in data.millrace_clusters.all.clusters : cluster.name => cluster.state }
}
