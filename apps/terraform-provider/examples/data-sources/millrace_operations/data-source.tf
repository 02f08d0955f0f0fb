data "millrace_operations" "latest" {}

output "what_runs_now" {
  value = [for operation in data.millrace_operations.latest.operations : operation.kind if !operation.done]
}
