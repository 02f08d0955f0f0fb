//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

func TestAClusterPausesAndKeepsItsTopics(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	cluster := unique("paused")
	config := func(paused bool) string {
		return clusterConfig(cluster, fmt.Sprintf("paused = %v", paused)) + `
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "kept"
  partitions = 2
}
`
	}
	w.write(config(false))
	w.apply()
	id := w.attribute("millrace_topic.main", "topic_id")
	w.write(config(true))
	w.wantPlan(planChanges, "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if state := w.attribute(main, "state"); state != "PAUSED" {
		t.Errorf("state %s", state)
	}
	// A paused cluster has no broker to ask about topics, and they are kept all the same.
	w.wantPlan(planEmpty, "The topic was not refreshed")
	w.write(config(false))
	w.apply()
	if state := w.attribute(main, "state"); state != "RUNNING" {
		t.Errorf("state %s", state)
	}
	w.wantPlan(planEmpty)
	if after := w.attribute("millrace_topic.main", "topic_id"); after != id {
		t.Errorf("topic %s became %s", id, after)
	}
	w.destroy()
}

func TestAClusterIsCreatedPaused(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("rests"), "paused = true"))
	w.apply()
	if state := w.attribute(main, "state"); state != "PAUSED" {
		t.Errorf("state %s", state)
	}
	w.wantPlan(planEmpty)
	w.destroy()
}

// A key is rotated into the same file, as the documented example does it.
func TestAKeyIsRotatedInItsFile(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	name := unique("rotated")
	config := func(quarter string) string {
		return fmt.Sprintf(`
resource "millrace_api_key" "main" {
  name        = %q
  role        = "viewer"
  secret_file = "${path.module}/deploy.key"
  rotate_when = { quarter = %q }
}
`, name, quarter)
	}
	secret := func() string {
		text, err := os.ReadFile(filepath.Join(w.folder, "deploy.key"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	w.write(config("1"))
	w.apply()
	old := secret()
	w.write(config("2"))
	w.apply()
	w.wantPlan(planEmpty)
	for key, works := range map[string]bool{old: false, secret(): true} {
		client, err := api.Connect(api.Settings{Endpoint: running.APIURL, APIKey: key, RequestsPerSecond: 5})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.Read[api.EnvironmentPage](client.EnvironmentList(context.Background(), nil)); (err == nil) != works {
			t.Errorf("works %v: %v", works, err)
		}
	}
	w.destroy()
	if _, err := os.Stat(filepath.Join(w.folder, "deploy.key")); err == nil {
		t.Error("the file of the revoked key is left")
	}
}

func TestAClusterChangesInPlace(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	before := unique("before")
	w.write(clusterConfig(before, `labels = { team = "a", kept = "b" }`))
	w.apply()
	id := w.attribute(main, "id")
	w.write(clusterConfig(unique("after"), `labels = { team = "c" }`, `size = "small"`, `plaintext_listener = false`))
	w.wantPlan(planChanges, "0 to add, 1 to change, 0 to destroy")
	w.apply()
	after := w.state(main)
	if after["id"] != id || after["size"] != "small" || after["state"] != "RUNNING" || len(after["labels"].(map[string]any)) != 1 {
		t.Errorf("after %v", after)
	}
	if endpoints := after["endpoints"].([]any); len(endpoints) != 1 || endpoints[0].(map[string]any)["protocol"] != "SASL_SSL" {
		t.Errorf("endpoints %v", endpoints)
	}
	w.wantPlan(planEmpty)
	w.destroy()
}

// What the time limit of the configuration cuts off goes on, and is waited for again.
func TestACreateThatRunsOutOfTimeIsResumed(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("patience"), `timeouts = { create = "2s" }`))
	release := holdWorker(t)
	output := w.apply()
	wantParts(t, output, "The cluster is still being created", "the time limit of the configuration has passed")
	if state := w.attribute(main, "state"); state != "PROVISIONING" {
		t.Errorf("state %s", state)
	}
	release()
	w.apply()
	if state := w.attribute(main, "state"); state != "RUNNING" {
		t.Errorf("state %s", state)
	}
	w.wantPlan(planEmpty)
	w.destroy()
}

func TestANameThatIsTakenSaysHowToImport(t *testing.T) {
	w, other := newWorkspace(t, running.APIURL), newWorkspace(t, running.APIURL)
	config := clusterConfig(unique("twice"))
	w.write(config)
	other.write(config)
	w.apply()
	code, output := other.run("apply", "-auto-approve", "-input=false", "-no-color")
	if code == 0 {
		t.Error("applied twice")
	}
	wantParts(t, output, "The cluster name is taken", "terraform import <address> "+w.attribute(main, "id"))
	w.destroy()
}

func TestAClusterDeletedElsewhereIsMadeAnew(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("elsewhere")))
	w.apply()
	id := w.attribute(main, "id")
	operation, err := api.Read[api.Operation](millrace.ClusterDelete(context.Background(), id, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Wait(context.Background(), millrace, operation.Id); err != nil {
		t.Fatal(err)
	}
	w.wantPlan(planChanges, "1 to add, 0 to change, 0 to destroy")
	w.apply()
	if w.attribute(main, "id") == id {
		t.Error("the id was used again")
	}
	w.destroy()
}

func TestTuningIsSetAndSetBack(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	cluster := unique("tuned")
	config := func(tuning string) string {
		return clusterConfig(cluster) + "\nresource \"millrace_cluster_tuning\" \"main\" {\n  cluster_id = millrace_cluster.main.id\n" + tuning + "\n}\n"
	}
	w.write(config("  egress_baseline_bytes_per_second = 52428800\n  ingress_baseline_bytes_per_second = 52428800"))
	w.apply()
	w.wantPlan(planEmpty)
	w.write(config("  egress_baseline_bytes_per_second = 73400320"))
	w.apply()
	w.wantPlan(planEmpty)
	id := w.attribute(main, "id")
	wantTuning(t, id, 73400320, api.TuningSettingSourceTuning)
	w.write(config("  egress_baseline_bytes_per_second = 1"))
	if code, output := w.run("apply", "-auto-approve", "-input=false", "-no-color"); code == 0 {
		t.Errorf("a byte per second was taken\n%s", output)
	}
	w.write(clusterConfig(cluster))
	w.apply()
	tuning, err := api.Read[api.Tuning](millrace.TuningGet(context.Background(), id))
	if err != nil || tuning.EgressBaselineBytesPerSecond.Source != api.TuningSettingSourceDefault {
		t.Errorf("%v, %v", tuning, err)
	}
	w.destroy()
}

func wantTuning(t *testing.T, id string, value int, source api.TuningSettingSource) {
	t.Helper()
	tuning, err := api.Read[api.Tuning](millrace.TuningGet(context.Background(), id))
	if err != nil {
		t.Fatal(err)
	}
	if found := tuning.EgressBaselineBytesPerSecond; found.Value != value || found.Source != source {
		t.Errorf("%+v, want %d by %s", found, value, source)
	}
}

func TestAnEnvironmentIsRenamedAndRefusesToGoWithClusters(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	name := unique("renamed")
	environment := "resource \"millrace_environment\" \"main\" {\n  name = \"%s\"\n}\n"
	w.write(fmt.Sprintf(environment, name))
	w.apply()
	id := w.attribute("millrace_environment.main", "id")
	w.write(fmt.Sprintf(environment, name+"-again"))
	w.wantPlan(planChanges, "0 to add, 1 to change, 0 to destroy")
	w.apply()
	other := newWorkspace(t, running.APIURL)
	other.write(clusterConfig(unique("inhabitant"), fmt.Sprintf("environment_id = %q", id)))
	other.apply()
	if code, output := w.run("destroy", "-auto-approve", "-input=false", "-no-color"); code == 0 {
		t.Errorf("an environment with a cluster was deleted\n%s", output)
	}
	other.destroy()
	w.destroy()
}

func TestABadConfigurationSaysWhatToDo(t *testing.T) {
	for _, each := range []struct {
		name, provider string
		want           string
	}{
		{"clear text", `endpoint = "http://api.example.com"`, "use https"},
		{"wrong key", `api_key = "mrk_nonsense"`, "unauthenticated"},
		{"a path", fmt.Sprintf("endpoint = %q", running.APIURL+"/docs"), "scheme, host and port alone"},
	} {
		t.Run(each.name, func(t *testing.T) {
			w := newWorkspace(t, running.APIURL)
			w.write("provider \"millrace\" {\n  " + each.provider + "\n}\ndata \"millrace_environments\" \"all\" {}\n")
			w.wantPlan(planFails, each.want)
		})
	}
	t.Run("no endpoint", func(t *testing.T) {
		w := newWorkspace(t, "")
		w.write("data \"millrace_environments\" \"all\" {}\n")
		w.wantPlan(planFails, "MILLRACE_ENDPOINT")
	})
}

// The state of another version, or one edited by hand, is told apart from what is wrong with the API.
func TestTheStateHoldsWhatTheConfigurationNeeds(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("state")))
	w.apply()
	text, err := os.ReadFile(w.folder + "/terraform.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, "the state", text)
	for name, value := range w.state(main) {
		switch name {
		case "wal", "network", "storage", "labels", "timeouts":
			if value != nil {
				t.Errorf("%s is %v, want null for a cluster on this machine", name, value)
			}
		default:
			if value == nil {
				t.Errorf("%s is null", name)
			}
		}
	}
	w.destroy()
}
