data "millrace_regions" "all" {}

output "available_regions" {
  value = [for region in data.millrace_regions.all.regions : region.id if region.available]
}
