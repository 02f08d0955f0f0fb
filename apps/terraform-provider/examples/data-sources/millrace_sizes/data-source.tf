data "millrace_sizes" "virginia" {
  region = "us-east-1"
}

output "monthly_estimates" {
  value = { for size in data.millrace_sizes.virginia.sizes : size.id => size.estimated_monthly_cost_usd }
}
