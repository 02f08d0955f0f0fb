package session

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// broker answers lists of topics, as slowly as `hold` says.
type broker struct {
	mutex sync.Mutex
	names []string
	calls atomic.Int32
	hold  chan struct{}
	fail  atomic.Bool
}

func (b *broker) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b.calls.Add(1)
	b.mutex.Lock()
	page := api.TopicPage{Items: []api.Topic{}}
	for _, name := range b.names {
		page.Items = append(page.Items, api.Topic{Name: name, Partitions: 1})
	}
	hold := b.hold
	b.mutex.Unlock()
	if hold != nil {
		<-hold
	}
	if b.fail.Load() {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	_ = json.NewEncoder(w).Encode(page)
}

func topicsOf(t *testing.T, b *broker) *Topics {
	t.Helper()
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	client, err := api.Connect(api.Settings{Endpoint: server.URL, APIKey: "mrk_x", RequestsPerSecond: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return newTopics(client)
}

func TestManyReadersShareOneList(t *testing.T) {
	b := &broker{names: []string{"a", "b"}}
	topics := topicsOf(t, b)
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if topic, err := topics.Get(context.Background(), "clu_1", "a"); err != nil || topic == nil {
				t.Error(topic, err)
			}
		})
	}
	all.Wait()
	if calls := b.calls.Load(); calls != 1 {
		t.Errorf("%d lists for 500 readers", calls)
	}
	if topic, err := topics.Get(context.Background(), "clu_1", "gone"); topic != nil || err != nil {
		t.Error(topic, err)
	}
}

// A list that was begun before a topic was made does not know it, and would drop it from the state.
func TestAListFromBeforeAWriteNeverAnswersAfterIt(t *testing.T) {
	b := &broker{names: []string{"old"}, hold: make(chan struct{})}
	topics := topicsOf(t, b)
	first := make(chan *api.Topic)
	go func() {
		topic, _ := topics.Get(context.Background(), "clu_1", "new")
		first <- topic
	}()
	for b.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b.mutex.Lock()
	b.names = append(b.names, "new")
	held := b.hold
	b.hold = nil
	b.mutex.Unlock()
	topics.Forget("clu_1")
	topic, err := topics.Get(context.Background(), "clu_1", "new")
	if err != nil || topic == nil {
		t.Errorf("the topic that was just made is not seen: %v, %v", topic, err)
	}
	close(held)
	if topic := <-first; topic != nil {
		t.Error("the first list was begun before the write")
	}
}

func TestAFailedListIsNotKept(t *testing.T) {
	b := &broker{names: []string{"a"}}
	b.fail.Store(true)
	topics := topicsOf(t, b)
	if _, err := topics.Get(context.Background(), "clu_1", "a"); err == nil {
		t.Fatal("no error")
	}
	b.fail.Store(false)
	if topic, err := topics.Get(context.Background(), "clu_1", "a"); err != nil || topic == nil {
		t.Error(topic, err)
	}
}

func TestAListGrowsOld(t *testing.T) {
	b := &broker{}
	topics := topicsOf(t, b)
	now := time.Now()
	topics.now = func() time.Time { return now }
	for range 3 {
		_, _ = topics.Get(context.Background(), "clu_1", "a")
		now = now.Add(listFor + time.Second)
	}
	if calls := b.calls.Load(); calls != 3 {
		t.Errorf("%d lists, want 3", calls)
	}
}

func TestClustersDoNotShareLists(t *testing.T) {
	b := &broker{}
	topics := topicsOf(t, b)
	_, _ = topics.Get(context.Background(), "clu_1", "a")
	_, _ = topics.Get(context.Background(), "clu_2", "a")
	topics.Forget("clu_2")
	_, _ = topics.Get(context.Background(), "clu_1", "a")
	if calls := b.calls.Load(); calls != 2 {
		t.Errorf("%d lists, want 2", calls)
	}
}

// A broker that does not answer holds up neither the readers nor, for ever, the list behind them.
func TestAListEndsThatNobodyAnswers(t *testing.T) {
	b := &broker{hold: make(chan struct{})}
	topics := topicsOf(t, b)
	t.Cleanup(func() { close(b.hold) })
	topics.limit = 50 * time.Millisecond
	if _, err := topics.All(t.Context(), "clu_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
