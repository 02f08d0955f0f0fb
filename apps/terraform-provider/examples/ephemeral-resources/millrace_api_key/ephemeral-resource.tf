# A key for this run: made when something needs it, revoked at the end.
ephemeral "millrace_api_key" "run" {
  name = "terraform-run"
  role = "viewer"
}

provider "millrace" {
  alias   = "viewer"
  api_key = ephemeral.millrace_api_key.run.secret
}

data "millrace_environments" "seen_by_the_viewer" {
  provider = millrace.viewer
}
