resource "millrace_cluster" "user_example" {
  name                = "user-example"
  deletion_protection = false
}

# Set TF_VAR_alice_password, or take the password from an ephemeral resource of your secret store.
variable "alice_password" {
  type      = string
  ephemeral = true
  sensitive = true
}

resource "millrace_user" "alice" {
  cluster_id = millrace_cluster.user_example.id
  name       = "alice"

  # Write-only: it is sent to the API, and is in neither state nor plan.
  password_wo = var.alice_password

  # A new number sets the password again.
  password_wo_version = 1
}
