package provider_test

import (
	"encoding/json"
	"os"
	"testing"
)

// Days that the API would refuse fail the validation, and not the destroy, years later.
func TestRetainDaysAreTheAPIs(t *testing.T) {
	text, err := os.ReadFile("../../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string `json:"name"`
				Schema struct {
					Minimum *int `json:"minimum"`
					Maximum *int `json:"maximum"`
				} `json:"schema"`
			} `json:"parameters"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	seen := 0
	tf := newTerraform(t, newFakeAPI(t).URL)
	for _, parameter := range document.Paths["/v1/clusters/{cluster_id}"]["delete"].Parameters {
		if parameter.Name != "retain_days" {
			continue
		}
		seen++
		for days, isFine := range map[int]bool{
			*parameter.Schema.Minimum: true, *parameter.Schema.Minimum - 1: false,
			*parameter.Schema.Maximum: true, *parameter.Schema.Maximum + 1: false,
		} {
			if said, failed := tf.validate(cluster, config(object{"retain_days": days})); failed == isFine {
				t.Errorf("%d days: %q", days, said)
			}
		}
	}
	if seen != 1 {
		t.Errorf("the API's document has %d retain_days", seen)
	}
}
