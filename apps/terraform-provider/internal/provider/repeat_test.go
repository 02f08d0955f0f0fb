package provider_test

import (
	"strings"
	"testing"
)

// What somebody else's operation leaves behind where nothing of it is to be carried out any more: its
// change was taken back, or is in effect.
var leftBehind = map[string]func(*fakeAPI){
	"a change of size that failed before it began": func(api *fakeAPI) {
		api.ends["cluster.update"], api.untouched = "FAILED", true
		api.changed("cluster.update", "RUNNING", object{"size": "large"})
	},
	"a pause that failed before it began": func(api *fakeAPI) {
		api.ends["cluster.pause"], api.untouched = "FAILED", true
		api.changed("cluster.pause", "PAUSED", object{"paused": true})
	},
	"a repair of drift that failed": func(api *fakeAPI) {
		api.ends["cluster.reconcile"] = "FAILED"
		api.changed("cluster.reconcile", "RUNNING", nil)
	},
	"a change that was cancelled": func(api *fakeAPI) {
		api.ends["cluster.update"], api.untouched = "CANCELLED", true
		api.changed("cluster.update", "RUNNING", object{"size": "large"})
	},
}

func wantNotRepeated(t *testing.T, api *fakeAPI, size string) {
	t.Helper()
	if api.count("POST operations") != 0 || api.spec["size"] != size || api.spec["paused"] != false {
		t.Errorf("repeated: %v after %v", api.spec, api.calls)
	}
}

// An apply does what its plan said, and no more: it carries out no change that the API has taken back.
func TestAnUnrelatedApplyRepeatsNothingThatWasTakenBack(t *testing.T) {
	for name, leave := range leftBehind {
		for what, wanted := range map[string]object{
			"retain_days": config(object{"retain_days": 5}),
			"protection":  config(object{"deletion_protection": true}),
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				api := newFakeAPI(t)
				tf := newTerraform(t, api.URL)
				made := tf.change(cluster, nil, config(nil))
				api.now(func() { leave(api) })
				made, _ = tf.refresh(cluster, made)
				if plan := tf.plan(cluster, made, config(nil)); plan.changes(made) {
					t.Fatalf("the plan is not empty: %s", plan.said)
				}
				tf.change(cluster, made, wanted)
				wantNotRepeated(t, api, "dev")
			})
		}
	}
}

// A change of ours failed half-way and somebody finished it; that a broker is not well is another matter.
func TestAnApplyForgetsWhatItHadLeftUnfinishedOnceThatIsDone(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	wanted := config(object{"size": "small"})
	api.now(func() { api.ends["cluster.update"] = "FAILED" })
	made, _, _ = tf.apply(cluster, made, wanted, tf.plan(cluster, made, wanted))
	api.now(func() {
		api.ends = map[string]string{}
		api.end(api.operations[api.last])
		api.phase = "DEGRADED"
		leftBehind["a change that was cancelled"](api)
	})
	// Also where nobody refreshes.
	wanted["retain_days"] = 5
	tf.change(cluster, made, wanted)
	wantNotRepeated(t, api, "small")
	made, _ = tf.refresh(cluster, made)
	delete(wanted, "retain_days")
	if plan := tf.plan(cluster, made, wanted); plan.changes(made) {
		t.Errorf("the plan is not empty: %s", plan.said)
	}
}

// The change failed half-way after the plan was made, which says nothing of it.
func TestAnApplyRepeatsNoChangeThatItsPlanDidNotSee(t *testing.T) {
	for name, more := range map[string]object{"retain_days": {"retain_days": 5}, "protection": {"deletion_protection": true}} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			tf := newTerraform(t, api.URL)
			made := tf.change(cluster, nil, config(nil))
			wanted := config(more)
			plan := tf.plan(cluster, made, wanted)
			api.now(func() {
				api.ends["cluster.update"] = "FAILED"
				api.changed("cluster.update", "RUNNING", object{"size": "large"})
			})
			_, said, failed := tf.apply(cluster, made, wanted, plan)
			if !failed {
				t.Error("no error")
			}
			wantSaid(t, said, "not what was planned", "plan again")
			wantNotRepeated(t, api, "large")
		})
	}
}

// refusing answers calls that begin so.
func refusing(status int, code string, prefixes ...string) func(string) (int, string, string) {
	return func(call string) (int, string, string) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(call, prefix) {
				return status, code, ""
			}
		}
		return 0, "", ""
	}
}

// Whoever cannot look does not know, and does not say that all is well.
func TestAChangeThatCannotBeLookedAtIsNotTakenForDone(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.ends["cluster.update"] = "FAILED"
		api.changed("cluster.update", "RUNNING", object{"size": "small"})
		api.refuses = refusing(403, "forbidden", "GET operations")
	})
	_, said, failed := tf.read(cluster, made)
	if !failed {
		t.Error("a change that failed is told as done")
	}
	wantSaid(t, said, "last operation", "forbidden")
}

func TestADeletionThatCannotBeLookedAtIsNotPlannedOver(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() { api.ends["cluster.delete"] = "FAILED" })
	_, _ = tf.destroy(cluster, made)
	made, _ = tf.refresh(cluster, made)
	api.now(func() { api.refuses = refusing(403, "forbidden", "GET operations") })
	if plan := tf.plan(cluster, made, config(nil)); !plan.failed {
		t.Errorf("planned: %s", plan.said)
	}
}

// What was accepted goes on, also where the API refuses to tell of it: the key was revoked meanwhile.
func TestAnAcceptedChangeIsUnfinishedUntilItsEndIsHeard(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	wanted := config(object{"size": "small"})
	plan := tf.plan(cluster, made, wanted)
	api.now(func() {
		accepts := once("PATCH")
		accepted := false
		api.refuses = func(call string) (int, string, string) {
			if accepted {
				return 401, "unauthenticated", ""
			}
			accepted = accepts(call)
			return 0, "", ""
		}
	})
	after, said, failed := tf.apply(cluster, made, wanted, plan)
	if !failed || api.last != "op_2" {
		t.Fatalf("last %s: %s", api.last, said)
	}
	api.now(func() { api.refuses = nil })
	if plan := tf.plan(cluster, after, wanted); !plan.changes(after) {
		t.Errorf("nothing is planned: %s", plan.said)
	}
}

// A refusal begins nothing, and finishes nothing either.
func TestARefusedChangeLeavesTheEarlierOneUnfinished(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	wanted := config(object{"size": "small"})
	api.now(func() { api.ends["cluster.update"] = "FAILED" })
	made, _, _ = tf.apply(cluster, made, wanted, tf.plan(cluster, made, wanted))
	larger := config(object{"size": "large"})
	plan := tf.plan(cluster, made, larger)
	api.now(func() { api.refuses = refusing(422, "validation_failed", "PATCH") })
	made, _, failed := tf.apply(cluster, made, larger, plan)
	if plan := tf.plan(cluster, made, wanted); !failed || !plan.changes(made) {
		t.Errorf("nothing is planned: %s", plan.said)
	}
}

func TestWhatSomebodyCancelledHalfWayStaysSo(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.ends["cluster.update"] = "CANCELLED"
		api.changed("cluster.update", "RUNNING", object{"size": "large"})
	})
	made, _ = tf.refresh(cluster, made)
	tf.change(cluster, made, config(object{"size": "large", "retain_days": 5}))
	wantNotRepeated(t, api, "large")
}

// A killed run's pause failed: the plan that was made without a look still means the same.
func TestAChangeThatWasAskedForAlreadyIsRepeated(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.ends["cluster.pause"] = "FAILED"
		api.changed("cluster.pause", "PAUSED", object{"paused": true})
		api.ends = map[string]string{}
	})
	made = tf.change(cluster, made, config(object{"paused": true}))
	if state := made.text(t, "state"); state != "PAUSED" || api.count("POST operations") != 1 {
		t.Errorf("the cluster is %s after %v", state, api.calls)
	}
}
