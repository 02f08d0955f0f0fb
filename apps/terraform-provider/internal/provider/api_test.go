package provider_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	clusterID  = "clu_1"
	problemFmt = `{"type":"t","title":"t","status":%d,"detail":"%s","instance":"/","code":"%s","request_id":"r","retryable":false,"errors":[]%s}`
)

// fakeAPI is an API with one cluster, whose operations end as the test says, in the moment in which
// somebody waits for them.
type fakeAPI struct {
	*httptest.Server
	mutex sync.Mutex
	calls []string
	// asked is the body of the last creation; previews counts those that only validate.
	asked    map[string]any
	previews int
	// previewRefuses answers a preview instead of the API: 0 lets it through.
	previewRefuses func() (status int, code, more string)
	// spec and phase of the cluster; no phase is no cluster.
	spec  map[string]any
	phase string
	last  string
	// revision of the spec, and the one that is in effect.
	revision, observed int
	operations         map[string]*fakeOperation
	topics             map[string]map[string]any
	// passwords of users by name.
	passwords    map[string]string
	acls, quotas []map[string]any
	keys         map[string]map[string]any
	keysMade     int
	// hasMore: the list of clusters has another page.
	hasMore   bool
	createdAt time.Time
	// ends decides how operations of a kind end: SUCCEEDED where it says nothing.
	ends map[string]string
	// untouched: what does not succeed ends before anything was begun, and its change is taken back.
	untouched bool
	// loses tells whether the answer to a call is lost after it was carried out; asked once for each.
	loses func(call string) bool
	// refuses answers instead of the API: 0 lets the call through.
	refuses func(call string) (status int, code, more string)
}

type fakeOperation struct {
	kind, phase, next string
	createdAt         time.Time
	// asked is what it changes of the spec; before it these, the phase and the revision were so.
	asked, replaced map[string]any
	origin          string
	revision        int
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{operations: map[string]*fakeOperation{}, topics: map[string]map[string]any{}, passwords: map[string]string{}, keys: map[string]map[string]any{}, ends: map[string]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	body := map[string]any{}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &body)
	call := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/")
	if r.URL.Query().Get("validate_only") == "true" {
		f.previews++
		if f.previewRefuses != nil {
			if status, code, more := f.previewRefuses(); status != 0 {
				problem(w, status, code, more)
				return
			}
		}
		fmt.Fprint(w, `{"plan":{"summary":{}},"policy":[],"warnings":[]}`)
		return
	}
	if days := r.URL.Query().Get("retain_days"); days != "" {
		call += "?retain_days=" + days
	}
	f.calls = append(f.calls, call)
	if f.refuses != nil {
		if status, code, more := f.refuses(call); status != 0 {
			problem(w, status, code, more)
			return
		}
	}
	answer := httptest.NewRecorder()
	f.answer(answer, r, call, body)
	if f.loses != nil && f.loses(call) {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func problem(w http.ResponseWriter, status int, code, more string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if code == "idempotency_key_in_use" {
		w.Header().Set("Retry-After", "0")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, problemFmt, status, "no", code, more)
}

func (f *fakeAPI) answer(w http.ResponseWriter, r *http.Request, call string, body map[string]any) {
	switch path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/"); {
	case path[0] == "operations":
		f.answerOperation(w, path)
	case path[0] == "api-keys":
		f.answerKey(w, r.Method, path, body)
	case call == "POST clusters":
		f.createdAt, f.asked = time.Now(), body
		f.spec = map[string]any{"environment_id": "env_1", "brokers": 1, "zones": 1, "paused": false, "plaintext_listener": true}
		maps.Copy(f.spec, body)
		f.revision, f.observed = 1, 0
		f.begin("cluster.create", "PROVISIONING", "RUNNING")
		f.writeCluster(w, http.StatusAccepted, "")
	case path[0] == "environments":
		f.answerEnvironment(w, r.Method, body)
	case call == "GET clusters":
		items := []any{}
		if f.phase != "" {
			items = append(items, f.cluster())
		}
		var next any
		if f.hasMore {
			next = "next"
		}
		writeJSON(w, http.StatusOK, map[string]any{"items": items, "next_page_token": next})
	case f.phase == "":
		problem(w, http.StatusNotFound, "not_found", "")
	case len(path) >= 3 && path[2] == "topics":
		f.answerTopic(w, r.Method, path[3:], body)
	case len(path) >= 3 && path[2] == "users":
		f.answerUser(w, r.Method, path[3:], body)
	case len(path) >= 3 && path[2] == "acls":
		f.answerACL(w, r, body)
	case len(path) >= 3 && path[2] == "quotas":
		f.answerQuota(w, r, body)
	case r.Method == http.MethodGet:
		f.writeCluster(w, http.StatusOK, "")
	case r.Method == http.MethodPatch:
		f.patch(w, body)
	case r.Method == http.MethodDelete:
		f.remove(w, r.URL.Query().Get("retain_days"))
	}
}

func (f *fakeAPI) begin(kind, phase, next string) { f.ask(kind, phase, next, nil) }

// ask begins an operation that changes the spec.
func (f *fakeAPI) ask(kind, phase, next string, asked map[string]any) {
	f.last = fmt.Sprintf("op_%d", len(f.operations)+1)
	operation := &fakeOperation{
		kind: kind, next: next, createdAt: time.Now(),
		asked: asked, replaced: map[string]any{}, origin: f.phase, revision: f.revision,
	}
	for name := range asked {
		operation.replaced[name] = f.spec[name]
	}
	f.operations[f.last] = operation
	f.enter(operation, phase)
}

// enter begins an operation, or goes on with one: then its change is made again where it was taken back.
func (f *fakeAPI) enter(operation *fakeOperation, phase string) {
	operation.phase, f.phase = "RUNNING", phase
	if len(operation.asked) > 0 && f.revision == operation.revision {
		maps.Copy(f.spec, operation.asked)
		f.revision++
	}
}

// end brings an operation to where the test wants it.
func (f *fakeAPI) end(operation *fakeOperation) {
	operation.phase = "SUCCEEDED"
	if phase := f.ends[operation.kind]; phase != "" {
		operation.phase = phase
	}
	changes := slices.Contains([]string{"cluster.update", "cluster.pause", "cluster.resume", "cluster.reconcile"}, operation.kind)
	switch {
	case operation.phase == "SUCCEEDED":
		f.phase, f.observed = operation.next, f.revision
	case changes && f.untouched:
		f.phase, f.revision = operation.origin, operation.revision
		maps.Copy(f.spec, operation.replaced)
	case operation.kind == "cluster.update" || operation.kind == "cluster.reconcile":
		f.phase = "DEGRADED"
	default:
		f.phase = "FAILED"
	}
}

// changed is an operation that somebody else began, and that has ended.
func (f *fakeAPI) changed(kind, next string, asked map[string]any) {
	f.ask(kind, "UPDATING", next, asked)
	f.end(f.operations[f.last])
}

func (f *fakeAPI) answerOperation(w http.ResponseWriter, path []string) {
	operation := f.operations[path[1]]
	switch {
	case len(path) == 3 && operation.kind == "cluster.create":
		f.enter(operation, "PROVISIONING")
	case len(path) == 3:
		f.enter(operation, "UPDATING")
	case operation.phase == "RUNNING":
		f.end(operation)
	}
	f.writeOperation(w, path[1])
}

func (f *fakeAPI) writeOperation(w http.ResponseWriter, id string) {
	operation := f.operations[id]
	writeJSON(w, http.StatusOK, map[string]any{
		"id": id, "kind": operation.kind, "phase": operation.phase, "done": operation.phase != "RUNNING",
		"created_at": operation.createdAt, "target": map[string]any{"id": clusterID}, "progress": map[string]any{"percent": 1},
	})
}

func (f *fakeAPI) patch(w http.ResponseWriter, body map[string]any) {
	changes, begins := false, false
	for name, value := range body {
		if fmt.Sprint(f.spec[name]) != fmt.Sprint(value) {
			changes, begins = true, begins || name == "size" || name == "paused" || name == "plaintext_listener" || name == "brokers"
		}
	}
	if begins && f.isBusy() {
		problem(w, http.StatusConflict, "cluster_busy", "")
		return
	}
	if begins && f.phase == "FAILED" {
		problem(w, http.StatusConflict, "cluster_not_ready", "")
		return
	}
	if !changes || !begins {
		maps.Copy(f.spec, body)
		f.writeCluster(w, http.StatusOK, "")
		return
	}
	// Protection does not wait for the operation, and is not taken back with it.
	if protection, says := body["deletion_protection"]; says {
		f.spec["deletion_protection"] = protection
		delete(body, "deletion_protection")
	}
	kind, next := "cluster.update", "RUNNING"
	if paused, isPause := body["paused"].(bool); isPause && paused {
		kind, next = "cluster.pause", "PAUSED"
	} else if isPause {
		kind = "cluster.resume"
	}
	f.ask(kind, "UPDATING", next, body)
	f.writeCluster(w, http.StatusAccepted, f.last)
}

func (f *fakeAPI) isBusy() bool {
	operation := f.operations[f.last]
	return operation != nil && operation.phase == "RUNNING"
}

// remove is what the API does with a DELETE: data that is kept goes only where somebody says 0.
func (f *fakeAPI) remove(w http.ResponseWriter, days string) {
	switch {
	case f.isBusy():
		problem(w, http.StatusConflict, "cluster_busy", "")
		return
	case f.phase == "PENDING_PURGE" && days != "0":
	case f.phase == "PENDING_PURGE":
		f.begin("cluster.purge", "DELETING", "")
	default:
		next := "PENDING_PURGE"
		if days == "0" {
			next = ""
		}
		f.begin("cluster.delete", "DELETING", next)
	}
	f.writeOperation(w, f.last)
}

func (f *fakeAPI) answerTopic(w http.ResponseWriter, method string, path []string, body map[string]any) {
	isServing := slices.Contains([]string{"RUNNING", "DEGRADED", "UPDATING"}, f.phase)
	switch {
	case !isServing:
		problem(w, http.StatusConflict, "cluster_not_ready", "")
	case method == http.MethodPost:
		topic := map[string]any{"name": body["name"], "partitions": body["partitions"], "replication_factor": 1, "topic_id": "t", "configs": map[string]any{}}
		f.topics[body["name"].(string)] = topic
		writeJSON(w, http.StatusCreated, topic)
	case method == http.MethodDelete:
		delete(f.topics, path[0])
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, map[string]any{"items": slices.Collect(maps.Values(f.topics))})
	}
}

func (f *fakeAPI) answerUser(w http.ResponseWriter, method string, path []string, body map[string]any) {
	name, _ := body["name"].(string)
	if len(path) > 0 {
		name = path[0]
	}
	_, exists := f.passwords[name]
	user := map[string]any{"name": name, "principal": "User:" + name, "mechanisms": []string{"SCRAM-SHA-512"}, "password": nil}
	switch isNew := method == http.MethodPost && len(path) == 0; {
	case isNew && exists:
		problem(w, http.StatusConflict, "user_name_taken", "")
	case !isNew && !exists:
		problem(w, http.StatusNotFound, "not_found", "")
	case method == http.MethodPost:
		f.passwords[name] = body["password"].(string)
		writeJSON(w, http.StatusOK, user)
	case method == http.MethodDelete:
		delete(f.passwords, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, user)
	}
}

func (f *fakeAPI) answerACL(w http.ResponseWriter, r *http.Request, body map[string]any) {
	isMeant := func(acl map[string]any) bool {
		for name, values := range r.URL.Query() {
			if acl[name] != values[0] {
				return false
			}
		}
		return true
	}
	switch r.Method {
	case http.MethodPost:
		f.acls = append(f.acls, body)
		writeJSON(w, http.StatusCreated, body)
	case http.MethodDelete:
		before := len(f.acls)
		if f.acls = slices.DeleteFunc(f.acls, isMeant); len(f.acls) == before {
			problem(w, http.StatusNotFound, "not_found", "")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		found := slices.DeleteFunc(slices.Clone(f.acls), func(acl map[string]any) bool { return !isMeant(acl) })
		writeJSON(w, http.StatusOK, map[string]any{"items": append([]map[string]any{}, found...)})
	}
}

func (f *fakeAPI) answerQuota(w http.ResponseWriter, r *http.Request, body map[string]any) {
	switch r.Method {
	case http.MethodPost:
		isIts := func(quota map[string]any) bool {
			return quota["user"] == body["user"] && quota["client_id"] == body["client_id"]
		}
		f.quotas = append(slices.DeleteFunc(f.quotas, isIts), body)
		writeJSON(w, http.StatusOK, body)
	case http.MethodDelete:
		f.quotas = slices.DeleteFunc(f.quotas, func(quota map[string]any) bool { return quota["user"] == r.URL.Query().Get("user") })
		w.WriteHeader(http.StatusNoContent)
	default:
		writeJSON(w, http.StatusOK, map[string]any{"items": append([]map[string]any{}, f.quotas...)})
	}
}

func (f *fakeAPI) answerKey(w http.ResponseWriter, method string, path []string, body map[string]any) {
	switch method {
	case http.MethodPost:
		f.keysMade++
		id := fmt.Sprintf("key_%d", f.keysMade)
		key := map[string]any{
			"id": id, "name": body["name"], "role": body["role"], "created_at": time.Now(), "hint": "mrk_" + id + "…",
			"secret": "mrk_" + id + "_secret", "expires_at": body["expires_at"],
		}
		f.keys[id] = key
		writeJSON(w, http.StatusCreated, key)
	case http.MethodDelete:
		delete(f.keys, path[1])
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet:
		key, isThere := f.keys[path[1]]
		if !isThere {
			problem(w, http.StatusNotFound, "not_found", "")
			return
		}
		shown := maps.Clone(key)
		delete(shown, "secret")
		writeJSON(w, http.StatusOK, shown)
	}
}

func (f *fakeAPI) answerEnvironment(w http.ResponseWriter, method string, body map[string]any) {
	switch {
	case method == http.MethodDelete && f.phase != "":
		problem(w, http.StatusConflict, "environment_not_empty", "")
	case method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case method == http.MethodPost:
		writeJSON(w, http.StatusCreated, map[string]any{"id": "env_1", "name": body["name"], "created_at": time.Now()})
	default:
		writeJSON(w, http.StatusOK, map[string]any{"items": []any{map[string]any{"id": "env_1", "name": "shop", "created_at": time.Now()}}})
	}
}

func (f *fakeAPI) writeCluster(w http.ResponseWriter, status int, operationID string) {
	cluster := f.cluster()
	if operationID != "" {
		cluster["operation_id"] = operationID
	}
	writeJSON(w, status, cluster)
}

func (f *fakeAPI) cluster() map[string]any {
	labels, _ := f.spec["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	var last any
	if f.last != "" {
		last = f.last
	}
	endpoints := []any{map[string]any{"name": "kafka-tls", "protocol": "SASL_SSL", "bootstrap_servers": "127.0.0.1:2"}}
	if f.spec["plaintext_listener"] == true {
		endpoints = append([]any{map[string]any{"name": "kafka", "protocol": "PLAINTEXT", "bootstrap_servers": "127.0.0.1:1"}}, endpoints...)
	}
	return map[string]any{
		"metadata": map[string]any{"id": clusterID, "created_at": f.createdAt, "revision": f.revision, "etag": fmt.Sprint(len(f.calls)), "labels": labels},
		"spec":     f.spec,
		"status": map[string]any{
			"phase": f.phase, "operation_id": last, "endpoints": endpoints, "conditions": []any{}, "drift": "unknown",
			"estimated_monthly_cost_usd": 0, "observed_revision": f.observed, "provider": "local",
		},
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// count of calls that begin so.
func (f *fakeAPI) count(prefix string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	found := 0
	for _, call := range f.calls {
		if strings.HasPrefix(call, prefix) {
			found++
		}
	}
	return found
}

// now changes the API while nobody asks it.
func (f *fakeAPI) now(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}

// once is true for the first call of the name.
func once(name string) func(string) bool {
	seen := false
	return func(call string) bool {
		isFirst := !seen && strings.HasPrefix(call, name)
		seen = seen || isFirst
		return isFirst
	}
}
