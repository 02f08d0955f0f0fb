//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// secretPattern is a whole API key; hints of keys are shorter.
var secretPattern = regexp.MustCompile(`mrk_[A-Za-z0-9_-]{20,}`)

// (5) Spellings of one value are no change, and 64-bit numbers keep every digit.
func TestContract05SpellingsAreNoChange(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("spelling")) + `
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "spelling"
  configs = {
    "retention.ms"        = "0604800000"
    "retention.bytes"     = "9223372036854775807"
    "cleanup.policy"      = "delete"
    "min.insync.replicas" = "1"
  }
}
`)
	w.apply()
	w.wantPlan(planEmpty)
	w.must("refresh", "-no-color")
	w.wantPlan(planEmpty)
	id, name := w.attribute(main, "id"), "spelling"
	topic, err := api.Read[api.Topic](millrace.TopicGet(context.Background(), id, name))
	if err != nil || topic.Configs == nil {
		t.Fatal(topic, err)
	}
	if value := (*topic.Configs)["retention.bytes"].Value; value == nil || *value != "9223372036854775807" {
		t.Errorf("retention.bytes is %v", value)
	}
	w.destroy()
}

// (6) Everything can be imported, by id and by name, and the plan afterwards is empty.
func TestContract06ImportThenEmptyPlan(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	name := unique("import")
	config := fmt.Sprintf(`
resource "millrace_environment" "main" {
  name = %q
}
resource "millrace_cluster" "main" {
  environment_id      = millrace_environment.main.id
  name                = %q
  deletion_protection = false
  labels              = { team = "payments" }
}
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "events"
  partitions = 3
  configs    = { "retention.ms" = "86400000" }
}
resource "millrace_cluster_tuning" "main" {
  cluster_id                       = millrace_cluster.main.id
  egress_baseline_bytes_per_second = 52428800
}
resource "millrace_api_key" "main" {
  name = %q
  role = "viewer"
}
`, name, name, name)
	w.write(config)
	w.apply()
	environment, cluster := w.attribute("millrace_environment.main", "id"), w.attribute(main, "id")
	key := w.attribute("millrace_api_key.main", "id")
	for _, ids := range []map[string]string{
		{
			"millrace_environment.main": environment, main: cluster, "millrace_topic.main": cluster + "/events",
			"millrace_cluster_tuning.main": cluster, "millrace_api_key.main": key,
		},
		{
			"millrace_environment.main": name, main: name + "/" + name, "millrace_topic.main": name + "/" + name + "/events",
		},
	} {
		for address, id := range ids {
			w.must("state", "rm", address)
			w.must("import", "-input=false", "-no-color", address, id)
		}
		w.wantPlan(planEmpty)
	}
	code, output := w.run("import", "-input=false", "-no-color", "millrace_topic.other", "nonsense")
	if code == 0 {
		t.Errorf("nonsense was imported\n%s", output)
	}
	// An import cannot know retain_days, and the environment goes only once no deleted cluster's data is left in it.
	w.write(strings.Replace(config, "deletion_protection = false", "deletion_protection = false\n  retain_days = 0", 1))
	w.apply()
	w.destroy()
}

// (7) What somebody changes in the console shows in the plan; what the server fills in never does.
func TestContract07ChangesOutsideShow(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	name := unique("drift")
	w.write(fmt.Sprintf("resource \"millrace_environment\" \"main\" {\n  name = %q\n}\n", name) +
		clusterConfig(unique("drift"), "environment_id = millrace_environment.main.id", `labels = { team = "payments" }`) + `
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "drifting"
  configs    = { "retention.ms" = "86400000" }
}
resource "millrace_topic" "plain" {
  cluster_id = millrace_cluster.main.id
  name       = "plain"
}
`)
	w.apply()
	w.wantPlan(planEmpty)
	id := w.attribute(main, "id")
	for _, change := range []struct {
		make func() error
		want []string
	}{
		{func() error { return alterTopic(id, "drifting", api.Patch{"retention.ms": "1000"}) }, []string{`"retention.ms" = "1000" -> "86400000"`}},
		{func() error { return alterTopic(id, "plain", api.Patch{"cleanup.policy": "compact"}) }, []string{`- "cleanup.policy" = "compact" } -> null`}},
		{func() error { return alterCluster(id, api.Patch{"labels": api.Patch{"team": "fraud"}}) }, []string{`"team" = "fraud" -> "payments"`}},
		{func() error { return alterCluster(id, api.Patch{"labels": api.Patch{"added": "by hand"}}) }, []string{`"added" = "by hand" -> null`}},
		{func() error { return alterCluster(id, api.Patch{"deletion_protection": true}) }, []string{"deletion_protection = true -> false"}},
		{func() error {
			return answered(millrace.EnvironmentUpdateWithBody(context.Background(), w.attribute("millrace_environment.main", "id"), api.MergePatch, api.Patch{"name": name + "-renamed"}.Reader()))
		}, []string{`-renamed" -> "`}},
		{func() error { return api.Done(millrace.TopicDelete(context.Background(), id, "plain")) }, []string{"millrace_topic.plain will be created"}},
	} {
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		w.wantPlan(planChanges, change.want...)
		w.apply()
		w.wantPlan(planEmpty)
	}
	w.destroy()
}

func alterTopic(clusterID, name string, configs api.Patch) error {
	return answered(millrace.TopicUpdateWithBody(context.Background(), clusterID, name, nil, api.MergePatch, api.Patch{"configs": configs}.Reader()))
}

func alterCluster(id string, patch api.Patch) error {
	return answered(millrace.ClusterUpdateWithBody(context.Background(), id, nil, api.MergePatch, patch.Reader()))
}
