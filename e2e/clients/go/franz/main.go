// Command franz writes each line of its standard input as a record with franz-go, then reads as many in a consumer
// group and prints them; or it runs the steady mode. programs.ts describes both.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/millrace/e2e-clients/steady"
	"github.com/millrace/e2e-clients/trust"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const exchangeMax = 60 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), exchangeMax)
	defer cancel()
	run := func() error { return exchange(ctx) }
	if steady.Requested() {
		run = runSteady
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func exchange(ctx context.Context) error {
	topic := os.Getenv("CLIENT_TOPIC")
	options, err := settings()
	if err != nil {
		return err
	}
	options = append(options,
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(fmt.Sprintf("clients-franz-%d", time.Now().UnixNano())),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	written := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); written++ {
		record := &kgo.Record{Topic: topic, Value: []byte(lines.Text())}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	for seen := 0; seen < written; {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("consume: %w", failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			seen++
		})
	}
	return client.CommitUncommittedOffsets(ctx)
}

func settings() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("CLIENT_BOOTSTRAP"), ",")...), kgo.ClientID("clients")}
	protocol := os.Getenv("CLIENT_PROTOCOL")
	if strings.HasSuffix(protocol, "SSL") {
		config, err := trust.Config(os.Getenv("CLIENT_CA_FILE"), os.Getenv("CLIENT_IDENTITY_FILE"))
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(protocol, "SASL") {
		mechanism, err := login(os.Getenv("CLIENT_MECHANISM"))
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func login(mechanism string) (sasl.Mechanism, error) {
	user, password := os.Getenv("CLIENT_USERNAME"), os.Getenv("CLIENT_PASSWORD")
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: password}.AsMechanism(), nil
	}
	return nil, errors.New("no mechanism " + mechanism)
}
