// Command capability tries one capability of a Go client: its arguments name the client and the capability, which
// kafka/matrix/capabilities.ts describes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"
)

const (
	records    = 10
	partitions = 2
	waitMax    = 40 * time.Second
)

var (
	bootstrap = os.Getenv("CLIENT_BOOTSTRAP")
	topic     = os.Getenv("CLIENT_TOPIC")
	group     = os.Getenv("CLIENT_GROUP")
	made      = topic + "-made"
)

// client is what each library does for a capability; an absence says why there is none.
type client interface {
	exchange(ctx context.Context, codec string, idempotent bool) error
	transactions(ctx context.Context) error
	classicGroup(ctx context.Context) error
	consumerGroup(ctx context.Context) error
	shareGroup(ctx context.Context) error
	admin(ctx context.Context) error
}

type absence string

func (reason absence) Error() string { return string(reason) }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitMax)
	defer cancel()
	chosen := map[string]client{"franz-go": franz{}, "sarama": shopify{}, "kafka-go": segment{}}[os.Args[1]]
	err := try(ctx, chosen, os.Args[2])
	if reason, isAbsent := err.(absence); isAbsent {
		fmt.Println("n/a", string(reason))
		return
	}
	if err != nil {
		log.Fatal(err)
	}
}

func try(ctx context.Context, chosen client, capability string) error {
	switch capability {
	case "produce", "consume":
		return chosen.exchange(ctx, "none", false)
	case "idempotent produce":
		return chosen.exchange(ctx, "none", true)
	case "transactions":
		return chosen.transactions(ctx)
	case "classic group":
		return chosen.classicGroup(ctx)
	case "consumer group":
		return chosen.consumerGroup(ctx)
	case "share group":
		return chosen.shareGroup(ctx)
	case "admin":
		return chosen.admin(ctx)
	}
	return chosen.exchange(ctx, capability, false)
}

func values(prefix string) []string {
	all := make([]string, records)
	for at := range all {
		all[at] = fmt.Sprintf("%s%d", prefix, at)
	}
	return all
}

func expect[T comparable](wanted, found T, what string) error {
	if wanted != found {
		return fmt.Errorf("%v %s, not %v", found, what, wanted)
	}
	return nil
}

// sharing is what two members of a group have at a time.
type sharing struct {
	mutex sync.Mutex
	owned [2]int
	seen  map[string]bool
}

func (s *sharing) own(member, count int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.owned[member] = count
}

func (s *sharing) see(value string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[value] = true
}

func (s *sharing) until(ctx context.Context, first, second, seen int) error {
	deadline := time.Now().Add(waitMax)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		s.mutex.Lock()
		holds := s.owned == [2]int{first, second} && len(s.seen) >= seen
		s.mutex.Unlock()
		if holds {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("members have %v, not %d and %d, and have read %d", s.owned, first, second, len(s.seen))
}
