package provider_test

import "testing"

const quota = "millrace_quota"

func withCluster(t *testing.T) (*fakeAPI, *terraform) {
	t.Helper()
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	tf.change(cluster, nil, config(nil))
	return api, tf
}

func TestAQuotaHasTheLimitsOfItsConfiguration(t *testing.T) {
	api, tf := withCluster(t)
	asked := func(limits object) object {
		limits["cluster_id"], limits["user"] = clusterID, "alice"
		return limits
	}
	made := tf.change(quota, nil, asked(object{"producer_byte_rate": 1024, "request_percentage": 12.5}))
	changed := tf.change(quota, made, asked(object{"producer_byte_rate": 2048}))
	if got := api.quotas[0]; got["producer_byte_rate"] != 2048.0 || got["request_percentage"] != nil {
		t.Errorf("limits: %v", got)
	}
	api.now(func() { api.quotas[0]["consumer_byte_rate"] = 1.0 })
	drifted, _ := tf.refresh(quota, changed)
	if !tf.plan(quota, drifted, asked(object{"producer_byte_rate": 2048})).changes(drifted) {
		t.Error("a limit that somebody added is no change")
	}
	found, said := tf.imported(quota, "clu_1|alice|")
	if found == nil {
		t.Fatal(said)
	}
	if found, _ = tf.refresh(quota, found); found == nil {
		t.Error("the imported quota was not found")
	}
	if said, failed := tf.destroy(quota, changed); failed {
		t.Error(said)
	}
	if gone, _ := tf.refresh(quota, changed); gone != nil {
		t.Error("a deleted quota is still in the state")
	}
}

func TestAQuotaNeedsSomebodyAndALimit(t *testing.T) {
	tf := newTerraform(t, newFakeAPI(t).URL)
	for _, wrong := range []object{
		{"cluster_id": clusterID, "producer_byte_rate": 1},
		{"cluster_id": clusterID, "user": "alice"},
		{"cluster_id": clusterID, "user": "alice", "producer_byte_rate": 0},
	} {
		if _, failed := tf.validate(quota, wrong); !failed {
			t.Errorf("accepted: %v", wrong)
		}
	}
}
