package provider_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const cluster = "millrace_cluster"

func config(more object) object {
	written := object{"name": "orders", "deletion_protection": false}
	maps.Copy(written, more)
	return written
}

func wantSaid(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in\n%s", part, said)
		}
	}
}

// A deletion is asked for once, whatever becomes of its answer: the second one could purge what is kept.
func TestADeletionWhoseAnswerIsLostKeepsTheData(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(object{"retain_days": 7}))
	api.now(func() { api.loses = once("DELETE clusters/clu_1") })
	if said, failed := tf.destroy(cluster, made); failed {
		t.Fatal(said)
	}
	// The repetition of the one request, and none that meant to delete once more.
	if api.phase != "PENDING_PURGE" || api.count("DELETE") != 2 {
		t.Errorf("asked %d times, and the cluster is %q", api.count("DELETE"), api.phase)
	}
	for _, operation := range api.operations {
		if operation.kind == "cluster.purge" {
			t.Error("what was to be kept was purged")
		}
	}
}

// A deletion that is under way, or done, is not asked for again.
func TestADeletionOfAnotherRunIsWaitedFor(t *testing.T) {
	for _, phase := range []string{"DELETING", "PENDING_PURGE"} {
		api := newFakeAPI(t)
		tf := newTerraform(t, api.URL)
		made := tf.change(cluster, nil, config(object{"retain_days": 0}))
		api.now(func() {
			api.begin("cluster.delete", "DELETING", "PENDING_PURGE")
			if phase == "PENDING_PURGE" {
				api.end(api.operations[api.last])
			}
		})
		if said, failed := tf.destroy(cluster, made); failed {
			t.Error(said)
		}
		if api.count("DELETE") != 0 || api.phase != "PENDING_PURGE" {
			t.Errorf("%s: asked %d times, and the cluster is %q", phase, api.count("DELETE"), api.phase)
		}
	}
}

func TestADeletionThatFailsIsAnErrorAndNeverRetriedByAnApply(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() { api.ends["cluster.delete"] = "FAILED" })
	if said, failed := tf.destroy(cluster, made); !failed {
		t.Fatalf("no error: %s", said)
	}
	made, _ = tf.refresh(cluster, made)
	plan := tf.plan(cluster, made, config(nil))
	if !plan.failed {
		t.Error("the plan does not say that the deletion failed")
	}
	wantSaid(t, plan.said, "The cluster's deletion failed", "terraform destroy", "POST /v1/clusters/clu_1/restore")
	// The state may be older than the failure: the apply looks for itself.
	older := tf.change(cluster, nil, config(nil))
	plan = tf.plan(cluster, older, config(object{"deletion_protection": true}))
	api.now(func() { api.begin("cluster.delete", "DELETING", ""); api.end(api.operations[api.last]) })
	if _, said, failed := tf.apply(cluster, older, config(object{"deletion_protection": true}), plan); failed {
		t.Error(said)
	}
	if api.count("POST operations") != 0 {
		t.Errorf("a deletion was retried: %v", api.calls)
	}
	// Whoever wants it gone gets on.
	api.now(func() { api.ends = map[string]string{}; api.spec["deletion_protection"] = false })
	if said, failed := tf.destroy(cluster, made); failed {
		t.Error(said)
	}
}

func TestADeletionUnderWayStaysInTheState(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() { api.begin("cluster.delete", "DELETING", "PENDING_PURGE") })
	made, _ = tf.refresh(cluster, made)
	if made == nil {
		t.Fatal("it left the state while it was being deleted")
	}
	plan := tf.plan(cluster, made, config(nil))
	if plan.failed || !plan.changes(made) {
		t.Fatalf("no wait is planned: %s", plan.said)
	}
	_, said, failed := tf.apply(cluster, made, config(nil), plan)
	if !failed {
		t.Error("an apply made something of a cluster that is deleted")
	}
	wantSaid(t, said, "it is deleted", "apply again")
	if made, _ = tf.refresh(cluster, made); made != nil {
		t.Error("what is deleted is still in the state")
	}
}

// (a) The answer to a change is lost, and its operation fails; (b) it fails in plain sight.
func TestAChangeThatFailedIsNotTakenForDone(t *testing.T) {
	for name, loses := range map[string]bool{"heard": false, "unheard": true} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			tf := newTerraform(t, api.URL)
			made := tf.change(cluster, nil, config(nil))
			wanted := config(object{"size": "small"})
			api.now(func() {
				api.ends["cluster.update"] = "FAILED"
				if loses {
					api.loses = once("PATCH")
				}
			})
			after, said, failed := tf.apply(cluster, made, wanted, tf.plan(cluster, made, wanted))
			if !failed {
				t.Fatal("a change that failed is told as done")
			}
			wantSaid(t, said, "ended as FAILED")
			after, _ = tf.refresh(cluster, after)
			plan := tf.plan(cluster, after, wanted)
			if plan.failed || !plan.changes(after) {
				t.Fatalf("the next plan is empty: %s", plan.said)
			}
			for _, name := range []string{"drift", "estimated_monthly_cost_usd", "state"} {
				if plan.knows(t, name) {
					t.Errorf("the plan promises a value of %s", name)
				}
			}
			api.now(func() { api.ends = map[string]string{} })
			after, said, failed = tf.apply(cluster, after, wanted, plan)
			if failed || api.count("POST operations") != 1 || api.phase != "RUNNING" {
				t.Errorf("%s: %d retries, phase %s", said, api.count("POST operations"), api.phase)
			}
			if plan := tf.plan(cluster, after, wanted); plan.changes(after) {
				t.Errorf("the plan after the retry is not empty: %s", plan.said)
			}
		})
	}
}

// A run that is killed notes nothing; the API still knows that the change did not take effect.
func TestAFailedChangeOfAKilledRunIsNotTakenForDone(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.ends["cluster.update"] = "FAILED"
		api.changed("cluster.update", "RUNNING", object{"size": "small"})
	})
	wanted := config(object{"size": "small"})
	made, _ = tf.refresh(cluster, made)
	plan := tf.plan(cluster, made, wanted)
	if plan.failed || !plan.changes(made) {
		t.Fatalf("the plan is empty: %s", plan.said)
	}
	api.now(func() { api.ends = map[string]string{} })
	made = tf.change(cluster, made, wanted)
	made, _ = tf.refresh(cluster, made)
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) || api.count("POST operations") != 1 {
		t.Errorf("after %v: %s", api.calls, plan.said)
	}
}

func TestWhatSomebodyElseRetriedIsDone(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	wanted := config(object{"size": "small"})
	api.now(func() { api.ends["cluster.update"] = "FAILED" })
	made, _, _ = tf.apply(cluster, made, wanted, tf.plan(cluster, made, wanted))
	api.now(func() { api.ends = map[string]string{}; api.end(api.operations[api.last]) })
	made, _ = tf.refresh(cluster, made)
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
		t.Errorf("the plan is not empty: %s", plan.said)
	}
}

func TestAChangeWhoseAnswerIsLostIsWaitedFor(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() { api.loses = once("PATCH") })
	after := tf.change(cluster, made, config(object{"size": "small"}))
	if api.count("PATCH") != 2 {
		t.Errorf("%v", api.calls)
	}
	if state := after.text(t, "state"); state != "RUNNING" {
		t.Errorf("the apply ended while the cluster was %s", state)
	}
}

// The plaintext listener is on by default, and a change waits for the broker's restart.
func TestThePlaintextListenerIsTurnedOffInPlace(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	if api.spec["plaintext_listener"] != true {
		t.Errorf("created with %v", api.spec["plaintext_listener"])
	}
	wanted := config(object{"plaintext_listener": false})
	if plan := tf.plan(cluster, made, config(object{"size": "small"})); !plan.knows(t, "endpoints") {
		t.Error("another change makes the endpoints unknown")
	}
	made = tf.change(cluster, made, wanted)
	if api.spec["plaintext_listener"] != false || api.count("PATCH") != 1 || api.count("GET operations") == 0 {
		t.Errorf("%v: %v", api.spec, api.calls)
	}
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
		t.Errorf("the next plan is not empty: %s", plan.said)
	}
	tf.change(cluster, made, config(object{"plaintext_listener": true}))
}

// Brokers are added and removed in place. One that is alone cannot become one of several.
func TestBrokersAreAddedAndRemovedInPlace(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(object{"brokers": 3, "deletion_protection": false}))
	if fmt.Sprint(api.spec["brokers"]) != "3" {
		t.Fatalf("created with %v", api.spec["brokers"])
	}
	wanted := config(object{"brokers": 5, "deletion_protection": false})
	plan := tf.plan(cluster, made, wanted)
	if plan.failed || plan.replaces || plan.knows(t, "endpoints") {
		t.Errorf("more brokers: replaces %t, %s", plan.replaces, plan.said)
	}
	made = tf.change(cluster, made, wanted)
	if fmt.Sprint(api.spec["brokers"]) != "5" || api.count("PATCH") != 1 || api.count("GET operations") == 0 {
		t.Errorf("%v: %v", api.spec, api.calls)
	}
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
		t.Errorf("the next plan is not empty: %s", plan.said)
	}
	alone := tf.plan(cluster, made, config(object{"brokers": 1, "deletion_protection": false}))
	if !alone.replaces || !strings.Contains(alone.said, "Changing brokers replaces the cluster") {
		t.Errorf("one broker: replaces %t, %s", alone.replaces, alone.said)
	}
}

// Whoever leaves the attribute out leaves the listener to the console.
func TestAListenerThatTheConfigurationDoesNotNameStaysAsItIs(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	if asked, names := api.asked["plaintext_listener"]; names {
		t.Errorf("a creation without the attribute asks for %v", asked)
	}
	api.now(func() { api.changed("cluster.update", "RUNNING", object{"plaintext_listener": false}) })
	made, _ = tf.refresh(cluster, made)
	if plan := tf.plan(cluster, made, config(nil)); plan.failed || plan.changes(made) {
		t.Errorf("a change is planned: %s", plan.said)
	}
	found, said := tf.imported(cluster, clusterID)
	if found == nil {
		t.Fatal(said)
	}
	found, _ = tf.refresh(cluster, found)
	for _, prior := range []*instance{made, found} {
		prior = tf.change(cluster, prior, config(object{"size": "small"}))
		if api.spec["plaintext_listener"] != false {
			t.Error("an unrelated apply turned the listener on")
		}
		tf.change(cluster, prior, config(nil))
	}
}

// A state that an older provider wrote has no value, and may be planned on without a refresh.
func TestAStateWithoutTheListenerIsTakenOver(t *testing.T) {
	for name, wanted := range map[string]object{
		"left out": config(object{"size": "small"}),
		"on":       config(object{"plaintext_listener": true}),
		"off":      config(object{"plaintext_listener": false}),
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			tf := newTerraform(t, api.URL)
			made := tf.change(cluster, nil, config(nil))
			values := map[string]tftypes.Value{}
			if err := made.value.As(&values); err != nil {
				t.Fatal(err)
			}
			values["plaintext_listener"] = tftypes.NewValue(tftypes.Bool, nil)
			made.value = tftypes.NewValue(made.value.Type(), values)
			made = tf.change(cluster, made, wanted)
			if on := api.spec["plaintext_listener"]; on != (name != "off") {
				t.Errorf("the listener is %v", on)
			}
			if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
				t.Errorf("the next plan is not empty: %s", plan.said)
			}
		})
	}
}

// An unknown value is no false, which the API refuses on AWS.
func TestAnUnknownListenerIsNotPreviewed(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	wanted := object{"region": "us-east-1", "plaintext_listener": unknown}
	tf.plan(cluster, nil, config(wanted))
	made := tf.change(cluster, nil, config(object{"region": "us-east-1"}))
	before := api.previews
	plan := tf.plan(cluster, made, config(object{"region": "us-east-1", "size": "small", "plaintext_listener": unknown}))
	if plan.failed || plan.knows(t, "endpoints") {
		t.Errorf("the plan promises endpoints: %s", plan.said)
	}
	// The creation whose configuration is known was previewed.
	if before != 1 || api.previews != before {
		t.Errorf("%d previews, then %d", before, api.previews)
	}
}

func TestAClusterIsCreatedPaused(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	wanted := config(object{"paused": true})
	made := tf.change(cluster, nil, wanted)
	if state := made.text(t, "state"); state != "PAUSED" {
		t.Errorf("it is %s", state)
	}
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
		t.Errorf("the next plan is not empty: %s", plan.said)
	}
}

// Neither a creation nor a pause that fails makes Terraform replace the cluster.
func TestAClusterWhoseCreationOrPauseFailsIsKept(t *testing.T) {
	for _, kind := range []string{"cluster.create", "cluster.pause"} {
		api := newFakeAPI(t)
		api.ends[kind] = "FAILED"
		tf := newTerraform(t, api.URL)
		wanted := config(object{"paused": true})
		made := tf.change(cluster, nil, wanted)
		made, _ = tf.refresh(cluster, made)
		api.now(func() { api.ends = map[string]string{} })
		made = tf.change(cluster, made, wanted)
		if state := made.text(t, "state"); state != "PAUSED" || api.count("POST clusters") != 1 {
			t.Errorf("%s: the cluster is %s after %v", kind, state, api.calls)
		}
	}
}

// What the configuration changes is tried before the failed operation is repeated.
func TestAFailedCreationIsMendedByTheConfiguration(t *testing.T) {
	api := newFakeAPI(t)
	api.ends["cluster.create"] = "FAILED"
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() { api.ends = map[string]string{}; api.calls = nil })
	wanted := config(object{"size": "small"})
	plan := tf.plan(cluster, made, wanted)
	wantSaid(t, plan.said, "-replace")
	made = tf.change(cluster, made, wanted)
	var order []string
	for _, call := range api.calls {
		if !strings.HasPrefix(call, "GET") {
			order = append(order, strings.Fields(call)[0])
		}
	}
	if got := strings.Join(order, " "); got != "PATCH POST PATCH" || made.text(t, "size") != "small" {
		t.Errorf("%s: %v", got, api.calls)
	}
}

func TestANameTakenBySomebodyElseIsAnError(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.refuses = func(call string) (int, string, string) {
			if call == "POST clusters" {
				return 409, "cluster_name_taken", `,"existing_id":"clu_1"`
			}
			return 0, "", ""
		}
	})
	plan := tf.plan(cluster, nil, config(nil))
	_, said, failed := tf.apply(cluster, nil, config(nil), plan)
	if !failed {
		t.Fatal("somebody's cluster was taken over")
	}
	wantSaid(t, said, "terraform import <address> clu_1")
}

func TestAClusterIsNotReplacedForAnUnknownEnvironmentUnnoticed(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(object{"deletion_protection": true}))
	plan := tf.plan(cluster, made, config(object{"deletion_protection": true, "environment_id": unknown}))
	if !plan.failed {
		t.Errorf("a protected cluster would be replaced: %s", plan.said)
	}
	open := tf.change(cluster, made, config(nil))
	plan = tf.plan(cluster, open, config(object{"environment_id": unknown}))
	if plan.failed || !plan.replaces {
		t.Errorf("replaces %v: %s", plan.replaces, plan.said)
	}
	wantSaid(t, plan.said, "The plan replaces a cluster", "environment_id")
}
