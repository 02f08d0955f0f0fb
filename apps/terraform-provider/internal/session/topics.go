package session

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// listFor is how long one list answers for: a refresh of a thousand topics takes a few seconds.
const listFor = 15 * time.Second

// listTimeout ends a list that nobody waits for any more: retries of all of its pages included.
const listTimeout = 5 * time.Minute

// Topics reads the topics of a cluster by one list for all resources that ask within a refresh, and
// never answers with a list that was begun before the last write of this session.
type Topics struct {
	client *api.Client
	now    func() time.Time
	// limit of one list.
	limit time.Duration

	mutex sync.Mutex
	lists map[string]*topicList
}

// topicList is one list, perhaps still on its way.
type topicList struct {
	begun  time.Time
	ready  chan struct{}
	topics map[string]api.Topic
	err    error
}

func newTopics(client *api.Client) *Topics {
	return &Topics{client: client, now: time.Now, limit: listTimeout, lists: map[string]*topicList{}}
}

// Get returns the topic, or nil where the cluster has none of that name.
func (t *Topics) Get(ctx context.Context, clusterID, name string) (*api.Topic, error) {
	topics, err := t.All(ctx, clusterID)
	if err != nil {
		return nil, err
	}
	topic, exists := topics[name]
	if !exists {
		return nil, nil
	}
	return &topic, nil
}

// All returns every topic of the cluster by name. The map is shared: read it only.
func (t *Topics) All(ctx context.Context, clusterID string) (map[string]api.Topic, error) {
	list := t.listOf(ctx, clusterID)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-list.ready:
		return list.topics, list.err
	}
}

// Forget makes the next read of the cluster a new list: after each write.
func (t *Topics) Forget(clusterID string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.lists, clusterID)
}

func (t *Topics) listOf(ctx context.Context, clusterID string) *topicList {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	list := t.lists[clusterID]
	if list != nil && t.now().Sub(list.begun) < listFor && !list.hasFailed() {
		return list
	}
	list = &topicList{begun: t.now(), ready: make(chan struct{})}
	t.lists[clusterID] = list
	// One reader that goes away does not take the list from the others.
	go list.fetch(context.WithoutCancel(ctx), t.client, clusterID, t.limit)
	return list
}

func (l *topicList) hasFailed() bool {
	select {
	case <-l.ready:
		return l.err != nil
	default:
		return false
	}
}

func (l *topicList) fetch(ctx context.Context, client *api.Client, clusterID string, limit time.Duration) {
	defer close(l.ready)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	include := api.TopicListParamsIncludeConfigs
	topics, err := api.All(func(size int, token *string) ([]api.Topic, *string, error) {
		page, err := api.Read[api.TopicPage](client.TopicList(ctx, clusterID, &api.TopicListParams{PageSize: &size, PageToken: token, Include: &include}))
		if err != nil {
			return nil, nil, err
		}
		return page.Items, page.NextPageToken, nil
	})
	l.err = err
	l.topics = make(map[string]api.Topic, len(topics))
	for _, topic := range topics {
		l.topics[topic.Name] = topic
	}
}
