data "millrace_versions" "all" {}

output "default_version" {
  value = one([for version in data.millrace_versions.all.versions : version.id if version.default])
}
