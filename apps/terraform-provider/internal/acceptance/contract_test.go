//go:build acceptance

package acceptance

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// The items of the behaviour contract, by their numbers.

func clusterConfig(name string, more ...string) string {
	return fmt.Sprintf(`
resource "millrace_cluster" "main" {
  name                = %q
  deletion_protection = false
  retain_days         = 0
  %s
}
`, name, strings.Join(more, "\n  "))
}

const main = "millrace_cluster.main"

// (1) Create returns an id before anything is made, and whoever interrupts Terraform loses nothing: the
// next apply waits for the same operation.
func TestContract01InterruptedCreateIsResumed(t *testing.T) {
	proxy := newProxy(t)
	w := newWorkspace(t, proxy.URL)
	w.write(clusterConfig(unique("interrupted")))
	release := holdWorker(t)

	command, output := w.command("apply", "-auto-approve", "-input=false", "-no-color")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "Terraform waits for the operation", func() bool { return len(proxy.calls("POST", "/v1/clusters")) == 1 })
	time.Sleep(time.Second)
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// That it ends at all while the worker stands still is the proof that it does not wait for it.
	interrupted := time.Now()
	_ = command.Wait()
	t.Logf("the id came after %v, and Terraform stopped %v after the interrupt",
		proxy.calls("POST", "/v1/clusters")[0].took, time.Since(interrupted))
	before := w.state(main)
	if before == nil || before["state"] != "PROVISIONING" {
		t.Fatalf("the state does not hold the cluster: %v\n%s", before, output)
	}

	w.wantPlan(planChanges, "will be updated in-place", "Applying continues the cluster's operation", "0 to add, 1 to change, 0 to destroy")
	release()
	w.apply()
	after := w.state(main)
	if after["state"] != "RUNNING" || after["id"] != before["id"] || after["last_operation_id"] != before["last_operation_id"] {
		t.Errorf("before %v, after %v", before, after)
	}
	if posts := len(proxy.calls("POST", "/v1/")); posts != 1 {
		t.Errorf("%d POSTs: the operation was not resumed but begun again", posts)
	}
	w.wantPlan(planEmpty)
	w.destroy()
}

// (2) A failed creation keeps its id and says FAILED; the next plan is an update that retries.
func TestContract02FailedCreateIsRetriedInPlace(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(clusterConfig(unique("failing")))
	repair := breakNextCluster(t, w)

	failed := w.state(main)
	if failed == nil || failed["state"] != "FAILED" {
		t.Fatalf("state %v", failed)
	}
	w.wantPlan(planChanges, "will be updated in-place", "Applying retries the cluster", "0 to add, 1 to change, 0 to destroy")
	repair()
	w.apply()
	after := w.state(main)
	if after["state"] != "RUNNING" || after["id"] != failed["id"] {
		t.Errorf("failed %v, after %v", failed, after)
	}
	w.wantPlan(planEmpty)
	w.destroy()
}

// breakNextCluster applies the configuration while a file stands where the cluster's folder would be,
// so that its creation fails for real. The returned function takes the file away.
func breakNextCluster(t *testing.T, w *workspace) (repair func()) {
	t.Helper()
	release := holdWorker(t)
	known := clusterIDs(t)
	command, output := w.command("apply", "-auto-approve", "-input=false", "-no-color")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	until(t, "the cluster is accepted", func() bool {
		for each := range clusterIDs(t) {
			if !known[each] {
				id = each
			}
		}
		return id != ""
	})
	file := filepath.Join(running.Home, "clusters", id)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	release()
	if err := command.Wait(); err != nil {
		t.Fatalf("a failed creation must not fail the apply, which would taint the cluster: %v\n%s", err, output)
	}
	wantParts(t, unfolded(output.String()), "The cluster could not be created", "retries the operation in place")
	return func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func clusterIDs(t *testing.T) map[string]bool {
	t.Helper()
	size := 1000
	page, err := api.Read[api.ClusterPage](millrace.ClusterList(context.Background(), &api.ClusterListParams{PageSize: &size}))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, cluster := range page.Items {
		ids[cluster.Metadata.Id] = true
	}
	return ids
}

// (3) A protected destroy fails at plan, before anything is asked of the API.
func TestContract03ProtectedDestroyFailsAtPlan(t *testing.T) {
	proxy := newProxy(t)
	w := newWorkspace(t, proxy.URL)
	name := unique("protected")
	protected := func(protection bool, environment string) string {
		return fmt.Sprintf(`
resource "millrace_environment" "other" {
  name = "%s-other"
}
resource "millrace_cluster" "main" {
  name                = %q
  deletion_protection = %v
  %s
}
`, name, name, protection, environment)
	}
	w.write(protected(true, ""))
	w.apply()

	for what, arguments := range map[string][]string{
		"plan -destroy": {"plan", "-destroy", "-input=false", "-no-color"},
		"destroy":       {"destroy", "-auto-approve", "-input=false", "-no-color"},
	} {
		code, output := w.run(arguments...)
		if code != 1 {
			t.Fatalf("%s: exit %d\n%s", what, code, output)
		}
		wantParts(t, output, "The cluster is protected from deletion", "deletion_protection = false")
	}
	w.write(protected(true, "environment_id = millrace_environment.other.id"))
	w.wantPlan(planFails, "The plan would replace a protected cluster", "environment_id")
	w.write(fmt.Sprintf("resource \"millrace_environment\" \"other\" {\n  name = \"%s-other\"\n}\n", name))
	w.wantPlan(planFails, "The cluster is protected from deletion")
	if deletes := proxy.calls("DELETE", "/"); len(deletes) > 0 {
		t.Errorf("something was deleted: %v", deletes)
	}

	// The API defends it too, against those who do not plan.
	id := w.attribute(main, "id")
	_, err := api.Read[api.Operation](millrace.ClusterDelete(context.Background(), id, nil))
	if !api.HasCode(err, "deletion_protected") {
		t.Errorf("the API's answer: %v", err)
	}
	w.write(protected(false, ""))
	w.apply()
	w.destroy()
}

// (4) What the API says is gone leaves the state; a refusal or a failure never does that.
func TestContract04OnlyNotFoundRemoves(t *testing.T) {
	proxy := newProxy(t)
	w := newWorkspace(t, proxy.URL)
	name := unique("kept")
	w.write(fmt.Sprintf(`
provider "millrace" {
  max_retries = 1
}
resource "millrace_environment" "main" {
  name = %q
}
`, name))
	w.apply()
	problem := `{"type":"t","title":"x","status":%d,"detail":"no","instance":"/","code":"%s","request_id":"r","retryable":false,"errors":[]}`
	for _, each := range []struct {
		status    int
		mediaType string
		body      string
	}{
		{403, "application/problem+json", fmt.Sprintf(problem, 403, "forbidden")},
		{500, "application/problem+json", fmt.Sprintf(problem, 500, "internal")},
		{502, "text/html", "<h1>Bad gateway</h1>"},
		{503, "text/html", "<h1>Service unavailable</h1>"},
		{404, "text/html", "<h1>404 page not found</h1>"},
		{200, "text/html", "<h1>Sign in to the network</h1>"},
	} {
		proxy.setRefuse(func(r *http.Request) (int, string, string) {
			if r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/v1/environments/") {
				return each.status, each.mediaType, each.body
			}
			return 0, "", ""
		})
		w.wantPlan(planFails)
		code, _ := w.run("refresh", "-no-color")
		if code == 0 || w.state("millrace_environment.main") == nil {
			t.Errorf("%d %s: refresh exits %d, state %v", each.status, each.mediaType, code, w.state("millrace_environment.main"))
		}
	}
	proxy.setRefuse(nil)
	w.wantPlan(planEmpty)
	if err := api.Done(millrace.EnvironmentDelete(context.Background(), w.attribute("millrace_environment.main", "id"))); err != nil {
		t.Fatal(err)
	}
	w.wantPlan(planChanges, "1 to add, 0 to change, 0 to destroy")
	w.apply()
	w.destroy()
}

// (8) What was just written is read at once, by this and by the next run.
func TestContract08ReadAfterWrite(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	config := func(topics int) string {
		return clusterConfig(unique("written")) + fmt.Sprintf(`
resource "millrace_topic" "each" {
  count      = %d
  cluster_id = millrace_cluster.main.id
  name       = "topic-${count.index}"
}
data "millrace_topics" "all" {
  cluster_id = millrace_cluster.main.id
  depends_on = [millrace_topic.each]
}
output "topics" {
  value = length(data.millrace_topics.all.topics)
}
`, topics)
	}
	w.write(config(20))
	wantParts(t, w.apply(), "topics = 20")
	w.wantPlan(planEmpty)
	w.destroy()
}

// (11) No secret stands in the state, the plan or the output.
func TestContract11NoSecretInTheState(t *testing.T) {
	w := newWorkspace(t, running.APIURL)
	w.write(fmt.Sprintf(`
resource "millrace_api_key" "file" {
  name        = %q
  role        = "viewer"
  secret_file = "${path.module}/secret.key"
}
resource "millrace_api_key" "without" {
  name = %q
  role = "viewer"
}
ephemeral "millrace_api_key" "run" {
  name = %q
  role = "viewer"
}
provider "millrace" {
}
provider "millrace" {
  alias   = "viewer"
  api_key = ephemeral.millrace_api_key.run.secret
}
data "millrace_environments" "all" {
  provider = millrace.viewer
}
`, unique("file"), unique("without"), unique("run")))
	// Planned before anything is there, when a plan has the most to keep to itself.
	w.must("plan", "-out=saved.tfplan", "-input=false", "-no-color")
	output := w.apply()
	secret, err := os.ReadFile(filepath.Join(w.folder, "secret.key"))
	if err != nil || !strings.HasPrefix(string(secret), "mrk_") {
		t.Fatalf("%q, %v", secret, err)
	}
	own, err := api.Connect(api.Settings{Endpoint: running.APIURL, APIKey: strings.TrimSpace(string(secret)), RequestsPerSecond: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Read[api.EnvironmentPage](own.EnvironmentList(context.Background(), nil)); err != nil {
		t.Errorf("the key in the file does not work: %v", err)
	}
	wantNoSecret(t, "the output", []byte(output))
	state, err := os.ReadFile(filepath.Join(w.folder, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, "the state", state)
	for name, text := range unzipped(t, filepath.Join(w.folder, "saved.tfplan")) {
		wantNoSecret(t, "the plan's "+name, text)
	}
	shown := w.must("show", "-json", "saved.tfplan")
	wantNoSecret(t, "the plan as JSON", []byte(shown))
	w.destroy()
	keys, err := api.Read[api.ApiKeyPage](millrace.ApiKeyList(context.Background(), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys.Items {
		if strings.HasPrefix(key.Name, "run-") {
			t.Errorf("the ephemeral key %s was not revoked", key.Id)
		}
	}
}

// unzipped are the files in a saved plan, which is a zip archive: looked at from outside it shows nothing.
func unzipped(t *testing.T, path string) map[string][]byte {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for _, each := range archive.File {
		file, err := each.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		files[each.Name] = text
	}
	if len(files["tfplan"]) == 0 || len(files["tfconfig/m-/main.tf"]) == 0 {
		t.Fatalf("the plan is not what was expected: %d files", len(files))
	}
	return files
}

// wantNoSecret looks for any key of the product: the prefix with at least what a hint does not show.
func wantNoSecret(t *testing.T, where string, text []byte) {
	t.Helper()
	if found := secretPattern.Find(text); found != nil {
		t.Errorf("%s holds a secret: %.12s…", where, found)
	}
	if strings.Contains(string(text), running.APIKey) {
		t.Errorf("%s holds the provider's own key", where)
	}
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if reached() {
			return
		}
	}
	t.Fatalf("not reached within a minute: %s", what)
}
