//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

func TestTopicsAreNeverLostSilently(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	cluster := unique("topics")
	config := func(name string, partitions int, protection bool) string {
		return clusterConfig(cluster) + fmt.Sprintf(`
resource "millrace_topic" "main" {
  cluster_id          = millrace_cluster.main.id
  name                = %q
  partitions          = %d
  deletion_protection = %v
}
`, name, partitions, protection)
	}
	w.write(config("first", 4, true))
	w.apply()

	w.write(config("first", 3, true))
	w.wantPlan(planFails, "Partitions cannot be reduced", "set at least 4")
	w.write(config("second", 4, true))
	w.wantPlan(planFails, "The plan would replace a protected topic")
	w.write(clusterConfig(cluster))
	w.wantPlan(planFails, "The topic is protected from deletion")

	w.write(config("first", 8, false))
	w.apply()
	topic, err := api.Read[api.Topic](millrace.TopicGet(context.Background(), w.attribute(main, "id"), "first"))
	if err != nil || topic.Partitions != 8 {
		t.Errorf("%v, %v", topic, err)
	}
	w.write(config("second", 8, false))
	w.wantPlan(planChanges, "The plan replaces a topic", "would be deleted with its records", "1 to add, 0 to change, 1 to destroy")
	w.apply()
	w.wantPlan(planEmpty)
	w.destroy()
}

func TestATopicThatExistsIsNotTakenOverSilently(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("taken")))
	w.apply()
	id := w.attribute(main, "id")
	body := api.TopicCreateJSONRequestBody{Name: "there"}
	if err := answered(millrace.TopicCreate(context.Background(), id, nil, body)); err != nil {
		t.Fatal(err)
	}
	w.write(clusterConfig("x") + "\nresource \"millrace_topic\" \"main\" {\n  cluster_id = \"" + id + "\"\n  name = \"there\"\n}\n")
	code, output := w.run("apply", "-auto-approve", "-input=false", "-no-color", "-target=millrace_topic.main")
	if code == 0 {
		t.Error("applied")
	}
	wantParts(t, output, "The topic already exists", "terraform import <address> "+id+"/there")
	w.destroy()
}

func TestSettingsChangeInPlaceAndGoBackToDefaults(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	cluster := unique("settings")
	config := func(configs string) string {
		return clusterConfig(cluster) + fmt.Sprintf(`
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "settings"
  %s
}
`, configs)
	}
	for _, configs := range []string{
		`configs = { "retention.ms" = "1000", "cleanup.policy" = "delete" }`,
		`configs = { "retention.ms" = "2000" }`,
		``,
		`configs = { "cleanup.policy" = "compact" }`,
	} {
		w.write(config(configs))
		w.apply()
		w.wantPlan(planEmpty)
	}
	w.write(config(`configs = { "no.such.setting" = "1" }`))
	code, output := w.run("apply", "-auto-approve", "-input=false", "-no-color")
	if code == 0 {
		t.Error("applied")
	}
	wantParts(t, output, "no.such.setting")
	w.write(config(`configs = { "cleanup.policy" = "compact" }`))
	w.wantPlan(planEmpty)
	w.destroy()
}
