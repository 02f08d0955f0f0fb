package provider_test

import (
	"testing"
	"time"
)

// everything that a creation can ask for.
func everything() object {
	return object{
		"name": "orders", "deletion_protection": false, "region": "us-east-1", "size": "small",
		"environment_id": "env_1", "brokers": 1, "zones": 2, "labels": object{"team": "a"},
		"wal": object{"type": "gp3", "size_gib": 20}, "storage": object{"kms_key_arn": "arn:aws:kms:us-east-1:1:key/a"},
		"network": object{"access": "private", "cidr": "10.1.0.0/24"},
	}
}

// taking loses the answer to a creation. The API then says that it is at work on it, and at last that the
// name is taken: it died meanwhile. Between the two, `meanwhile` happens.
func taking(api *fakeAPI, meanwhile func()) {
	posts := 0
	api.loses = once("POST clusters")
	api.refuses = func(call string) (int, string, string) {
		if call != "POST clusters" {
			return 0, "", ""
		}
		posts++
		switch posts {
		case 1:
			return 0, "", ""
		case 2:
			return 409, "idempotency_key_in_use", ""
		}
		meanwhile()
		return 409, "cluster_name_taken", `,"existing_id":"clu_1"`
	}
}

func TestANameTakenByOnesOwnLostRequestIsNoError(t *testing.T) {
	for name, wanted := range map[string]object{"little": config(nil), "everything": everything()} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			taking(api, func() {})
			tf := newTerraform(t, api.URL)
			made := tf.change(cluster, nil, wanted)
			if made.text(t, "id") != clusterID || made.text(t, "state") != "RUNNING" {
				t.Errorf("%v", api.calls)
			}
		})
	}
}

// What another run made is never taken over unasked: whoever destroys first would delete the other's data.
func TestAClusterOfAnotherRunIsNotTakenOver(t *testing.T) {
	const earlier = 10 * time.Second
	for name, other := range map[string]func(*fakeAPI){
		"made before": func(api *fakeAPI) {
			api.operations[api.last].createdAt = time.Now().Add(-earlier)
		},
		"made before, and changed since": func(api *fakeAPI) { api.begin("cluster.update", "UPDATING", "RUNNING") },
		"of nobody knows when":           func(api *fakeAPI) { api.last = "" },
		"of another environment":         func(api *fakeAPI) { api.spec["environment_id"] = "env_2" },
		"of another size":                func(api *fakeAPI) { api.spec["size"] = "large" },
		"of another region":              func(api *fakeAPI) { api.spec["region"] = "eu-central-1" },
		"of another name":                func(api *fakeAPI) { api.spec["name"] = "payments" },
		"protected":                      func(api *fakeAPI) { api.spec["deletion_protection"] = true },
		"without the plaintext listener": func(api *fakeAPI) { api.spec["plaintext_listener"] = false },
		"of more brokers":                func(api *fakeAPI) { api.spec["brokers"] = 3 },
		"of more zones":                  func(api *fakeAPI) { api.spec["zones"] = 3 },
		"with another label":             func(api *fakeAPI) { api.spec["labels"] = map[string]any{"team": "b"} },
		"with one more label":            func(api *fakeAPI) { api.spec["labels"] = map[string]any{"team": "a", "more": "b"} },
		"with another volume":            func(api *fakeAPI) { api.spec["wal"] = map[string]any{"type": "gp3", "size_gib": 40} },
		"without a volume":               func(api *fakeAPI) { delete(api.spec, "wal") },
		"with another key":               func(api *fakeAPI) { api.spec["storage"] = map[string]any{"kms_key_arn": "arn:b"} },
		"in another network": func(api *fakeAPI) {
			api.spec["network"] = map[string]any{"access": "private", "cidr": "10.2.0.0/24"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			taking(api, func() { other(api) })
			tf := newTerraform(t, api.URL)
			_, said, failed := tf.apply(cluster, nil, everything(), tf.plan(cluster, nil, everything()))
			if !failed {
				t.Fatal("somebody's cluster was taken over")
			}
			wantSaid(t, said, "terraform import <address> clu_1")
		})
	}
}

func TestAClusterWithLabelsThatNobodyAskedForIsNotTakenOver(t *testing.T) {
	api := newFakeAPI(t)
	taking(api, func() { api.spec["labels"] = map[string]any{"team": "b"} })
	tf := newTerraform(t, api.URL)
	if _, _, failed := tf.apply(cluster, nil, config(nil), tf.plan(cluster, nil, config(nil))); !failed {
		t.Error("somebody's cluster was taken over")
	}
}

// Nothing says that the lost request had reached the API.
func TestACreationThatNeverArrivedTakesNothingOver(t *testing.T) {
	for _, status := range []int{429, 502, 503} {
		api := newFakeAPI(t)
		tf := newTerraform(t, api.URL)
		plan := tf.plan(cluster, nil, config(nil))
		api.now(func() {
			first := once("POST clusters")
			api.refuses = func(call string) (int, string, string) {
				if first(call) {
					return status, "unknown", ""
				}
				if call != "POST clusters" {
					return 0, "", ""
				}
				// Another pipeline, with the same configuration, was quicker.
				api.createdAt, api.spec = time.Now(), config(object{"environment_id": "env_1", "brokers": 1, "zones": 1, "region": "local", "size": "dev", "plaintext_listener": true})
				api.begin("cluster.create", "PROVISIONING", "RUNNING")
				return 409, "cluster_name_taken", `,"existing_id":"clu_1"`
			}
		})
		_, said, failed := tf.apply(cluster, nil, config(nil), plan)
		if !failed {
			t.Errorf("%d: somebody's cluster was taken over", status)
		}
		wantSaid(t, said, "terraform import <address> clu_1")
	}
}
