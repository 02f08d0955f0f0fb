resource "millrace_api_key" "deploy" {
  name       = "deploy"
  role       = "developer"
  expires_at = "2099-12-31T00:00:00Z"

  # The secret is written here once, for the current user alone; the state never holds it.
  secret_file = "${path.module}/deploy.key"

  # A new value makes a new key.
  rotate_when = {
    quarter = "2026-4"
  }
}
