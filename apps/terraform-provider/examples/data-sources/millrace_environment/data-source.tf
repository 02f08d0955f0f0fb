data "millrace_environments" "some" {}

data "millrace_environment" "first" {
  name = data.millrace_environments.some.environments[0].name
}
