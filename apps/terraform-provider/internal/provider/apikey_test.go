package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

const apiKey = "millrace_api_key"

func keyConfig(file, quarter string) object {
	return object{"name": "deploy", "role": "developer", "secret_file": file, "rotate_when": object{"quarter": quarter}}
}

func wantSecret(t *testing.T, file, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || string(text) != want+"\n" {
		t.Errorf("%q, %v; want %s", text, err, want)
	}
}

// The documented example: the same file, another quarter.
func TestAKeyWithAFileIsRotated(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	file := filepath.Join(t.TempDir(), "deploy.key")
	old := tf.change(apiKey, nil, keyConfig(file, "1"))
	wantSecret(t, file, "mrk_key_1_secret")
	plan := tf.plan(apiKey, old, keyConfig(file, "2"))
	if plan.failed || !plan.replaces {
		t.Fatalf("replaces %v: %s", plan.replaces, plan.said)
	}
	// Terraform deletes, then plans and makes the next one.
	if said, failed := tf.destroy(apiKey, old); failed {
		t.Fatal(said)
	}
	tf.change(apiKey, nil, keyConfig(file, "2"))
	wantSecret(t, file, "mrk_key_2_secret")
}

func TestARotationThatFindsNoPlaceRevokesNothing(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	file := filepath.Join(t.TempDir(), "deploy.key")
	old := tf.change(apiKey, nil, keyConfig(file, "1"))
	if err := os.WriteFile(file, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := tf.plan(apiKey, old, keyConfig(file, "2"))
	if !plan.failed {
		t.Error("the rotation is planned, and would end without a key")
	}
	wantSaid(t, plan.said, "Nothing was revoked")
	// Something else is not ours to remove.
	if said, failed := tf.destroy(apiKey, old); failed {
		t.Error(said)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "something else" {
		t.Errorf("%q, %v", text, err)
	}
}

// Keys of another organization are not found, either: their secrets may be in use.
func TestTheFileOfAKeyThatIsNotFoundStays(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	file := filepath.Join(t.TempDir(), "deploy.key")
	made := tf.change(apiKey, nil, keyConfig(file, "1"))
	var others object
	api.now(func() { others = api.keys["key_1"]; delete(api.keys, "key_1") })
	gone, said := tf.refresh(apiKey, made)
	if gone != nil {
		t.Fatal("a key that is not found is still in the state")
	}
	wantSaid(t, said, "key_1", "another organization", file)
	wantSecret(t, file, "mrk_key_1_secret")
	plan := tf.plan(apiKey, nil, keyConfig(file, "1"))
	wantSaid(t, plan.said, "cannot be written", "exists already")
	said, failed := tf.destroy(apiKey, made)
	if failed {
		t.Fatal(said)
	}
	wantSaid(t, said, "key_1", file)
	wantSecret(t, file, "mrk_key_1_secret")
	// Asked with the right key again, nothing was lost.
	api.now(func() { api.keys["key_1"] = others })
	if there, _ := tf.refresh(apiKey, made); there == nil {
		t.Fatal("the key is there")
	}
}

// What somebody put there instead stays.
func TestAKeyThatIsGoneTakesNoOtherFileWithIt(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	file := filepath.Join(t.TempDir(), "deploy.key")
	made := tf.change(apiKey, nil, keyConfig(file, "1"))
	if err := os.WriteFile(file, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	api.now(func() { delete(api.keys, "key_1") })
	if said, failed := tf.destroy(apiKey, made); said != "" || failed {
		t.Error(said)
	}
	wantSecret(t, file, "something else")
	plan := tf.plan(apiKey, nil, keyConfig(file, "1"))
	wantSaid(t, plan.said, "cannot be written", "exists already")
}

// Terraform plans the next key as if there were none before; the old one's file goes first.
func TestAReplacementIsNotWarnedOfTheFileThatGoesWithTheOldKey(t *testing.T) {
	for name, look := range map[string]func(*terraform, *instance, string){
		"by a refresh": func(tf *terraform, made *instance, _ string) { tf.refresh(apiKey, made) },
		"by a plan":    func(tf *terraform, made *instance, file string) { tf.plan(apiKey, made, keyConfig(file, "1")) },
	} {
		api := newFakeAPI(t)
		file := filepath.Join(t.TempDir(), "deploy.key")
		made := newTerraform(t, api.URL).change(apiKey, nil, keyConfig(file, "1"))
		tf := newTerraform(t, api.URL)
		look(tf, made, file)
		if plan := tf.plan(apiKey, nil, keyConfig(file, "1")); plan.said != "" {
			t.Errorf("%s: %s", name, plan.said)
		}
	}
}

// A run that dies leaves a key behind: it ends by itself.
func TestAKeyOfOneRunEndsWithinADay(t *testing.T) {
	api := newFakeAPI(t)
	tf := newTerraform(t, api.URL)
	kind := tf.ephemeral[apiKey].ValueType()
	server, ok := tf.server.(tfprotov6.EphemeralResourceServer)
	if !ok {
		t.Fatal("no ephemeral resources")
	}
	opened, err := server.OpenEphemeralResource(tf.ctx, &tfprotov6.OpenEphemeralResourceRequest{
		TypeName: apiKey, Config: tf.pack(tf.build(kind, object{"name": "run"})),
	})
	tf.mustPass(opened.Diagnostics, err)
	until, err := time.Parse(time.RFC3339, fmt.Sprint(api.keys["key_1"]["expires_at"]))
	if left := time.Until(until); err != nil || left < time.Hour || left > 24*time.Hour {
		t.Errorf("it ends in %v, %v", left, err)
	}
	closed, err := server.CloseEphemeralResource(tf.ctx, &tfprotov6.CloseEphemeralResourceRequest{TypeName: apiKey, Private: opened.Private})
	tf.mustPass(closed.Diagnostics, err)
	if len(api.keys) != 0 {
		t.Errorf("not revoked: %v", api.keys)
	}
}
