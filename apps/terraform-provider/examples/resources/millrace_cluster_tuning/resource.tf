resource "millrace_cluster" "tuning_example" {
  name                = "tuning-example"
  deletion_protection = false
}

resource "millrace_cluster_tuning" "tuning_example" {
  cluster_id = millrace_cluster.tuning_example.id

  egress_baseline_bytes_per_second = 50 * 1024 * 1024
}
