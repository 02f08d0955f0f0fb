// Command terraform-provider-millrace lets Terraform manage Millrace: environments, Kafka clusters,
// topics, API keys and tuning. It speaks protocol 6 and knows the product by its REST API alone.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/millrace/terraform-provider-millrace/internal/provider"
)

// version is set by the linker in a release.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger and print how Terraform finds this process")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: provider.Address,
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
