//go:build acceptance

package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// An answer that is lost on the way is asked for again, and makes nothing twice.
func TestALostAnswerMakesNothingTwice(t *testing.T) {
	proxy := newProxy(t)
	var lost atomic.Int32
	seen := map[string]bool{}
	proxy.lose = func(r *http.Request) bool {
		preview := strings.Contains(r.URL.RawQuery, "validate_only")
		if r.Method == http.MethodGet || preview || seen[r.Method+r.URL.Path] {
			return false
		}
		seen[r.Method+r.URL.Path] = true
		lost.Add(1)
		return true
	}
	w := newWorkspace(t, proxy.URL)
	name := unique("lost")
	w.write(fmt.Sprintf("resource \"millrace_environment\" \"main\" {\n  name = %q\n}\n", name) +
		clusterConfig(name, "environment_id = millrace_environment.main.id") + `
resource "millrace_topic" "main" {
  cluster_id = millrace_cluster.main.id
  name       = "once"
}
`)
	before := len(clusterIDs(t))
	w.apply()
	if made := len(clusterIDs(t)) - before; made != 1 {
		t.Errorf("%d clusters were made", made)
	}
	w.wantPlan(planEmpty)
	w.destroy()
	if lost.Load() < 6 {
		t.Errorf("only %d answers were lost: the test shows nothing", lost.Load())
	}
}

// A plan of many resources waits its turn where the API says that it is too much.
func TestTooManyRequestsAreWaitedFor(t *testing.T) {
	proxy := newProxy(t)
	var refused atomic.Int32
	proxy.setRefuse(func(r *http.Request) (int, string, string) {
		if refused.Add(1) <= 3 {
			return http.StatusTooManyRequests, "text/plain", "slow down"
		}
		return 0, "", ""
	})
	w := newWorkspace(t, proxy.URL)
	w.write(fmt.Sprintf("resource \"millrace_environment\" \"main\" {\n  name = %q\n}\n", unique("patient")))
	w.apply()
	w.destroy()
	if refused.Load() <= 3 {
		t.Error("nothing was refused")
	}
}
