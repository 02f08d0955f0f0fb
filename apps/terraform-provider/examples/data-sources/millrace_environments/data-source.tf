data "millrace_environments" "all" {}

output "environments" {
  value = data.millrace_environments.all.environments[*].name
}
