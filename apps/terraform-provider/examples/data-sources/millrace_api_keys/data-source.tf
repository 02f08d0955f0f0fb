data "millrace_api_keys" "all" {}

output "keys_that_never_expire" {
  value = [for key in data.millrace_api_keys.all.api_keys : key.name if key.expires_at == null]
}
