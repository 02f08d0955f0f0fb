package provider_test

import (
	"context"
	"strings"
	"testing"
)

const environment = "millrace_environment"

func TestAnEnvironmentSaysWhichClustersKeepIt(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	made := tf.change(environment, nil, object{"name": "shop"})
	tf.change(cluster, nil, config(nil))
	api.now(func() { api.phase = "PENDING_PURGE" })
	said, failed := tf.destroy(environment, made)
	if !failed {
		t.Error("it is told as deleted")
	}
	wantSaid(t, said, "orders (clu_1) is PENDING_PURGE", "retain_days = 0", "purge the cluster")
	if strings.Contains(said, "and more") {
		t.Errorf("there are no more: %s", said)
	}
	api.now(func() { api.hasMore = true })
	said, _ = tf.destroy(environment, made)
	wantSaid(t, said, "orders (clu_1) is PENDING_PURGE\n  and more\n")
}

func TestAnEnvironmentThatWasMadeIsNotLostByAnInterrupt(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	wanted := object{"name": "shop"}
	plan := tf.plan(environment, nil, wanted)
	ctx, interrupt := context.WithCancel(tf.ctx)
	api.now(func() {
		isFirst := once("POST environments")
		api.loses = func(call string) bool {
			interrupt()
			return isFirst(call)
		}
	})
	tf.ctx = ctx
	after, said, failed := tf.apply(environment, nil, wanted, plan)
	if failed || after == nil {
		t.Errorf("lost: %s", said)
	}
}

// A name is that of the cluster which lives; one that is deleted is found by its id alone.
func TestADeletedClusterIsNotImportedByItsName(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	tf.change(cluster, nil, config(nil))
	if found, said := tf.imported(cluster, "shop/orders"); found == nil {
		t.Error(said)
	}
	api.now(func() { api.phase = "PENDING_PURGE" })
	if found, _ := tf.imported(cluster, "shop/orders"); found != nil {
		t.Error("a deleted cluster was imported by its name")
	}
	if found, said := tf.imported(cluster, clusterID); found == nil {
		t.Error(said)
	}
}
