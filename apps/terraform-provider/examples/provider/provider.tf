terraform {
  required_version = ">= 1.11"
  required_providers {
    millrace = {
      source = "millrace/millrace"
    }
  }
}

# The endpoint and the key come from MILLRACE_ENDPOINT and MILLRACE_API_KEY.
provider "millrace" {}
