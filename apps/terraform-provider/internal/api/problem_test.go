package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func problem(code int, mediaType, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const gone = `{"type":"t","title":"Not found","status":404,"detail":"There is no environment env_1.","instance":"/","code":"not_found","request_id":"req_7","retryable":false,"remedy":"Check the id.","errors":[]}`

func TestOnlyTheAPIsOwnAnswerMeansThatSomethingIsGone(t *testing.T) {
	for name, each := range map[string]struct {
		answer   func(http.ResponseWriter)
		notFound bool
	}{
		"not_found of the API":             {problem(404, "application/problem+json", gone), true},
		"with a charset":                   {problem(404, "application/problem+json; charset=utf-8", gone), true},
		"a route that the API lacks":       {problem(404, "application/problem+json", strings.ReplaceAll(gone, "not_found", "route_not_found")), false},
		"404 of a proxy":                   {problem(404, "text/html", "<h1>404 page not found</h1>"), false},
		"404 as JSON of something else":    {problem(404, "application/json", `{"code":"not_found"}`), false},
		"problem without a code":           {problem(404, "application/problem+json", `{"title":"?"}`), false},
		"forbidden":                        {problem(403, "application/problem+json", strings.ReplaceAll(gone, "not_found", "forbidden")), false},
		"a failure of the server":          {problem(500, "application/problem+json", strings.ReplaceAll(gone, "not_found", "internal")), false},
		"an answer that is no JSON at all": {problem(200, "text/html", "<h1>Welcome</h1>"), false},
	} {
		client, _ := clientOf(t, &scripted{answers: []func(http.ResponseWriter){each.answer}}, 0)
		_, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1"))
		if err == nil || IsNotFound(err) != each.notFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnErrorSaysWhatToDo(t *testing.T) {
	client, _ := clientOf(t, &scripted{answers: []func(http.ResponseWriter){problem(404, "application/problem+json", gone)}}, 0)
	_, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1"))
	for _, part := range []string{"There is no environment env_1.", "404 not_found", "Check the id.", "req_7"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestAllFollowsPagesToTheEnd(t *testing.T) {
	pages := [][]int{{1, 2}, {3}, {}}
	asked := 0
	items, err := All(func(size int, token *string) ([]int, *string, error) {
		page := pages[asked]
		asked++
		if size != pageSize || (asked == 1) != (token == nil) {
			t.Errorf("asked for %d with token %v", size, token)
		}
		if asked == len(pages) {
			return page, nil, nil
		}
		next := "next"
		return page, &next, nil
	})
	if err != nil || len(items) != 3 || asked != 3 {
		t.Error(items, asked, err)
	}
}

func TestAllEndsAListThatDoesNot(t *testing.T) {
	next := "again"
	if _, err := All(func(int, *string) ([]int, *string, error) { return nil, &next, nil }); err == nil {
		t.Error("no error")
	}
}

// What is no 2xx is no success, and what was to be deleted is gone only where the API says 204.
func TestARedirectOrAPageIsNoSuccess(t *testing.T) {
	for name, each := range map[string]struct {
		answer func(http.ResponseWriter)
		done   bool
	}{
		"204":                  {func(w http.ResponseWriter) { w.WriteHeader(204) }, true},
		"JSON":                 {problem(200, "application/json", `{}`), false},
		"accepted":             {problem(202, "application/json", `{}`), false},
		"a redirect to log in": {problem(302, "text/html", ""), false},
		"304":                  {func(w http.ResponseWriter) { w.WriteHeader(304) }, false},
		"a page":               {problem(200, "text/html", "<h1>Sign in</h1>"), false},
	} {
		server := &scripted{answers: []func(http.ResponseWriter){each.answer}}
		client, _ := clientOf(t, server, 0)
		if err := Done(client.EnvironmentDelete(context.Background(), "env_1")); (err == nil) != each.done {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := `{"id":"env_1","name":"a","created_at":"2026-01-01T00:00:00Z"}`
	client, _ := clientOf(t, &scripted{answers: []func(http.ResponseWriter){problem(302, "application/json", body)}}, 0)
	if _, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1")); err == nil {
		t.Error("a redirect with a body was read")
	}
}
