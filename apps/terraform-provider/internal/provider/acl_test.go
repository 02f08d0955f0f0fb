package provider_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const acl = "millrace_acl"

func aclConfig(operation string) object {
	return object{"cluster_id": clusterID, "principal": "User:alice", "resource_type": "topic", "resource_name": "orders", "operation": operation}
}

func attributeOf(t *testing.T, from *instance, name string) string {
	t.Helper()
	values := map[string]tftypes.Value{}
	if err := from.value.As(&values); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := values[name].As(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnACLIsItsFields(t *testing.T) {
	api, tf := withCluster(t)
	made := tf.change(acl, nil, aclConfig("write"))
	id := "clu_1|User:alice|topic|orders|literal|write|allow|*"
	if got := attributeOf(t, made, "id"); got != id {
		t.Errorf("the id is %s", got)
	}
	if plan := tf.plan(acl, made, aclConfig("read")); !plan.replaces {
		t.Error("another operation is another ACL")
	}
	found, said := tf.imported(acl, id)
	if found == nil {
		t.Fatal(said)
	}
	found, _ = tf.refresh(acl, found)
	if found == nil || tf.plan(acl, found, aclConfig("write")).changes(found) {
		t.Error("an imported ACL differs from its configuration")
	}
	if found, said := tf.imported(acl, "clu_1|User:alice"); found != nil {
		t.Error("imported")
	} else {
		wantSaid(t, said, "Invalid import id for an ACL")
	}
	api.now(func() { api.acls = nil })
	if gone, _ := tf.refresh(acl, made); gone != nil {
		t.Error("an ACL that somebody deleted is still in the state")
	}
	if said, failed := tf.destroy(acl, made); failed {
		t.Errorf("deleting what is gone: %s", said)
	}
}
