package provider_test

import (
	"strings"
	"testing"
)

const user = "millrace_user"

func userConfig(password string, version int) object {
	return object{"cluster_id": clusterID, "name": "alice", "password_wo": password, "password_wo_version": version}
}

func userOf(t *testing.T) (*fakeAPI, *terraform, *instance) {
	t.Helper()
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	tf.change(cluster, nil, config(nil))
	return api, tf, tf.change(user, nil, userConfig("the first password", 1))
}

func TestAPasswordIsSentAndNeverKept(t *testing.T) {
	api, tf, made := userOf(t)
	if got := api.passwords["alice"]; got != "the first password" {
		t.Errorf("the password is %q", got)
	}
	plan := tf.plan(user, made, userConfig("the second password", 1))
	if plan.changes(made) {
		t.Errorf("another password without another version is a change: %v", plan.value)
	}
	changed := tf.change(user, made, userConfig("the second password", 2))
	if got := api.passwords["alice"]; got != "the second password" {
		t.Errorf("the password is %q", got)
	}
	for _, each := range []*instance{made, changed} {
		if text := each.value.String(); strings.Contains(text, "password\"") || strings.Contains(text, "the first") || strings.Contains(text, "the second") {
			t.Errorf("the state has the password: %s", text)
		}
	}
}

func TestAUserThatExistsIsImportedAndNotTakenOver(t *testing.T) {
	_, tf, made := userOf(t)
	plan := tf.plan(user, nil, userConfig("another password of hers", 1))
	_, said, failed := tf.apply(user, nil, userConfig("another password of hers", 1), plan)
	if !failed {
		t.Error("taken over")
	}
	wantSaid(t, said, "The user already exists", "terraform import <address> clu_1/alice")
	found, said := tf.imported(user, "clu_1/alice")
	if found == nil {
		t.Fatal(said)
	}
	found, _ = tf.refresh(user, found)
	if plan := tf.plan(user, found, userConfig("the first password", 1)); plan.replaces || !plan.changes(found) {
		t.Errorf("after an import the version is applied in place: replaces %v", plan.replaces)
	}
	if said, failed := tf.destroy(user, made); failed {
		t.Error(said)
	}
	if gone, _ := tf.refresh(user, made); gone != nil {
		t.Error("a deleted user is still in the state")
	}
}

func TestAUserOfAPausedClusterStaysInTheState(t *testing.T) {
	api, tf, made := userOf(t)
	api.now(func() {
		api.refuses = func(call string) (int, string, string) {
			if strings.HasPrefix(call, "GET clusters/clu_1/users") {
				return 409, "cluster_not_ready", ""
			}
			return 0, "", ""
		}
	})
	known, said := tf.refresh(user, made)
	if known == nil {
		t.Error("lost")
	}
	wantSaid(t, said, "The user was not refreshed")
}

func TestPasswordsThatTheAPIRefusesFailThePlan(t *testing.T) {
	tf := newTerraform(t, newFakeAPI(t).URL)
	for _, password := range []string{"short", "pässwörter sind lang", strings.Repeat("x", 257)} {
		if said, failed := tf.validate(user, userConfig(password, 1)); !failed {
			t.Errorf("%q is accepted: %s", password, said)
		}
	}
}
