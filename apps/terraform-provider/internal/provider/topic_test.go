package provider_test

import (
	"context"
	"testing"
)

const topic = "millrace_topic"

func topicConfig(protected bool) object {
	return object{"cluster_id": clusterID, "name": "events", "deletion_protection": protected}
}

func topicOf(t *testing.T, protected bool) (*fakeAPI, *terraform, *instance) {
	t.Helper()
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	tf.change(cluster, nil, config(nil))
	return api, tf, tf.change(topic, nil, topicConfig(protected))
}

func TestAProtectedTopicIsNotReplacedForAnUnknownCluster(t *testing.T) {
	_, tf, made := topicOf(t, true)
	for _, name := range []string{"cluster_id", "name"} {
		changed := topicConfig(true)
		changed[name] = unknown
		plan := tf.plan(topic, made, changed)
		if !plan.failed {
			t.Errorf("unknown %s: a protected topic would be replaced: %s", name, plan.said)
		}
	}
	_, tf, made = topicOf(t, false)
	changed := topicConfig(false)
	changed["cluster_id"] = unknown
	plan := tf.plan(topic, made, changed)
	if plan.failed || !plan.replaces {
		t.Errorf("replaces %v: %s", plan.replaces, plan.said)
	}
	wantSaid(t, plan.said, "The plan replaces a topic", "events of a cluster that is not known yet")
}

// `terraform apply -replace` plans no deletion with the provider: it deletes at once.
func TestAProtectedTopicIsNotDeletedWithoutAPlan(t *testing.T) {
	api, tf, made := topicOf(t, true)
	_, said, failed := tf.apply(topic, made, nil, planned{value: tf.valueOf(topic, nil)})
	if !failed || api.count("DELETE") != 0 {
		t.Errorf("deleted: %v", api.calls)
	}
	wantSaid(t, said, "The topic is protected from deletion")
}

func TestATopicGoesWithItsCluster(t *testing.T) {
	for _, phase := range []string{"DELETING", "PENDING_PURGE"} {
		api, tf, made := topicOf(t, false)
		api.now(func() {
			api.begin("cluster.delete", "DELETING", "PENDING_PURGE")
			if phase == "PENDING_PURGE" {
				api.end(api.operations[api.last])
			}
		})
		if said, failed := tf.destroy(topic, made); failed {
			t.Errorf("%s: %s", phase, said)
		}
	}
	api, tf, made := topicOf(t, false)
	api.now(func() { api.phase = "PAUSED" })
	said, failed := tf.destroy(topic, made)
	if !failed {
		t.Error("a topic of a paused cluster is told as deleted")
	}
	wantSaid(t, said, "PAUSED", "terraform state rm")
}

func TestATopicIsChangedOnADegradedCluster(t *testing.T) {
	api, tf, made := topicOf(t, false)
	refusals := 0
	api.now(func() {
		api.phase = "DEGRADED"
		api.refuses = func(call string) (int, string, string) {
			if refusals++; call == "DELETE clusters/clu_1/topics/events" && refusals == 1 {
				return 409, "cluster_busy", ""
			}
			return 0, "", ""
		}
	})
	if said, failed := tf.destroy(topic, made); failed {
		t.Error(said)
	}
}

// Ctrl-C while a request is on its way: what the API made stands in the state.
func TestATopicThatWasMadeIsNotLostByAnInterrupt(t *testing.T) {
	api, tf, _ := topicOf(t, false)
	other := topicConfig(false)
	other["name"] = "others"
	plan := tf.plan(topic, nil, other)
	ctx, interrupt := context.WithCancel(tf.ctx)
	api.now(func() {
		api.loses = func(call string) bool {
			if call == "POST clusters/clu_1/topics" && ctx.Err() == nil {
				interrupt()
				return true
			}
			return false
		}
	})
	tf.ctx = ctx
	after, said, failed := tf.apply(topic, nil, other, plan)
	if failed || after == nil {
		t.Errorf("lost: %s", said)
	}
}
