package provider_test

import "testing"

// previewing is an API whose previews end so; everything else works.
func previewing(t *testing.T, status int, code, more string) (*fakeAPI, *terraform) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	api.previewRefuses = func() (int, string, string) { return status, code, more }
	return api, tf
}

const takenByAnother = `,"existing_id":"clu_2"`

// The environment that the same plan creates has no clusters: what the API says about the first one says nothing.
func TestAPlanIntoAnUnknownEnvironmentDoesNotCheckTheName(t *testing.T) {
	for _, code := range []string{"cluster_name_taken", "not_found"} {
		status := map[string]int{"cluster_name_taken": 409, "not_found": 404}[code]
		api, tf := previewing(t, status, code, takenByAnother)
		plan := tf.plan(cluster, nil, config(object{"environment_id": unknown}))
		if plan.failed || plan.said != "" || api.previews != 1 {
			t.Errorf("%s: %d previews, failed %v: %s", code, api.previews, plan.failed, plan.said)
		}
	}
}

// What else is wrong is so in every environment.
func TestAPlanIntoAnUnknownEnvironmentIsStillValidated(t *testing.T) {
	_, tf := previewing(t, 422, "validation_failed", "")
	if plan := tf.plan(cluster, nil, config(object{"environment_id": unknown})); !plan.failed {
		t.Errorf("the plan passes: %s", plan.said)
	}
}

func TestATakenNameFailsThePlan(t *testing.T) {
	for name, wanted := range map[string]object{
		"without an environment": config(nil),
		"in an environment":      config(object{"environment_id": "env_1"}),
	} {
		_, tf := previewing(t, 409, "cluster_name_taken", takenByAnother)
		plan := tf.plan(cluster, nil, wanted)
		if !plan.failed {
			t.Errorf("%s: the plan passes", name)
		}
		wantSaid(t, plan.said, "The cluster name is taken", "terraform import <address> clu_2")
	}
}

func TestARenameToATakenNameFailsThePlan(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.previewRefuses = func() (int, string, string) { return 409, "cluster_name_taken", takenByAnother }
	})
	if plan := tf.plan(cluster, made, config(object{"name": "payments"})); !plan.failed {
		t.Errorf("the plan passes: %s", plan.said)
	}
}

// Terraform plans a replacement as a creation too, with no prior state; a tainted cluster is only refreshed.
func TestAReplacementMayHaveTheNameOfWhatItReplaces(t *testing.T) {
	for name, see := range map[string]func(*terraform, *instance){
		"replaced": func(tf *terraform, made *instance) { tf.plan(cluster, made, config(object{"region": "us-east-1"})) },
		"tainted":  func(tf *terraform, made *instance) { tf.refresh(cluster, made) },
	} {
		api := newFakeAPI(t)
		made := newTerraform(t, api.URL).change(cluster, nil, config(nil))
		api.now(func() {
			api.previewRefuses = func() (int, string, string) { return 409, "cluster_name_taken", `,"existing_id":"clu_1"` }
		})
		tf := newTerraform(t, api.URL)
		see(tf, made)
		plan := tf.plan(cluster, nil, config(object{"region": "us-east-1"}))
		if plan.failed {
			t.Errorf("%s: %s", name, plan.said)
		}
		// Nobody knows yet whether it is replaced: another cluster of the state may have the name by mistake.
		wantSaid(t, plan.said, "A cluster of this state has the name")
	}
}

// The provider waits for another operation: a plan need not.
func TestABusyClusterDoesNotFailThePlan(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(cluster, nil, config(nil))
	api.now(func() {
		api.previewRefuses = func() (int, string, string) { return 409, "cluster_busy", "" }
	})
	plan := tf.plan(cluster, made, config(object{"size": "small"}))
	if plan.failed {
		t.Errorf("the plan fails: %s", plan.said)
	}
	wantSaid(t, plan.said, "could not be previewed")
}
