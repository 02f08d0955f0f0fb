//go:build acceptance

package acceptance

import (
	"fmt"
	"os"
	"testing"
)

// What the API would refuse fails the plan, at the attribute that is meant.
func TestAPlanAsksTheAPI(t *testing.T) {
	for _, each := range []struct {
		name, config string
		want         []string
	}{
		{"a volume on this machine", `wal = { size_gib = 20 }`, []string{"The API rejected the value", "wal"}},
		{"a size that there is not", `size = "enormous"`, []string{"The API rejected the value", "size"}},
		{"a region that there is not", `region = "moon-1"`, []string{"The API rejected the value", "region"}},
		{"too many operations per second", "region = \"us-east-1\"\n  wal = { type = \"gp3\", size_gib = 20, iops = 900000 }", []string{"The API rejected the value", "wal.iops"}},
	} {
		t.Run(each.name, func(t *testing.T) {
			w := newWorkspace(t, running.APIURL)
			w.write(clusterConfig(unique("refused"), each.config))
			w.wantPlan(planFails, each.want...)
		})
	}
}

// A cluster on AWS is planned without any account: resources, cost, rules.
func TestAPlanForAWSTellsItsCost(t *testing.T) {
	if os.Getenv("MILLRACE_TERRAFORM_MIRROR") == "" {
		t.Skip("no mirror of the AWS provider: set MILLRACE_TERRAFORM_MIRROR")
	}
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("aws"), `region = "us-east-1"`, `size = "small"`,
		`wal = { type = "gp3", size_gib = 50, iops = 4000, throughput_mibps = 250 }`, fmt.Sprintf("brokers = %d", 1)))
	w.wantPlan(planChanges, "1 to add, 0 to change, 0 to destroy", "Effect of the change on AWS", "cloud resources to create", "USD per month", "no offer")
}
