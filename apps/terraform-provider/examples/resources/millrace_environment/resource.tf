resource "millrace_environment" "production" {
  name = "production"
}
