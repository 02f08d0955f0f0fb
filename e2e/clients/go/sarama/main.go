// Command sarama writes each line of its standard input as a record with sarama, then reads as many in a consumer
// group and prints them; or it runs the steady mode. programs.ts describes both.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/millrace/e2e-clients/steady"
	"github.com/millrace/e2e-clients/trust"
	"github.com/xdg-go/scram"
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
	addresses, topic := brokers(), os.Getenv("CLIENT_TOPIC")
	config, err := settings()
	if err != nil {
		return err
	}
	written, err := produce(addresses, topic, config)
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	group, err := sarama.NewConsumerGroup(addresses, fmt.Sprintf("clients-sarama-%d", time.Now().UnixNano()), config)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer group.Close()
	reader := &reader{wanted: written}
	for reader.seen < written {
		if err := group.Consume(ctx, []string{topic}, reader); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %d records: %w", reader.seen, err)
		}
	}
	return nil
}

func produce(addresses []string, topic string, config *sarama.Config) (int, error) {
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return 0, err
	}
	defer producer.Close()
	written := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); written++ {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(lines.Text())}
		if _, _, err := producer.SendMessage(message); err != nil {
			return written, err
		}
	}
	return written, nil
}

// reader prints records until it has seen as many as are wanted. The topic has one partition.
type reader struct{ seen, wanted int }

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			fmt.Println(string(message.Value))
			session.MarkMessage(message, "")
			if r.seen++; r.seen == r.wanted {
				return nil
			}
		}
	}
}

func settings() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = "clients"
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	protocol := os.Getenv("CLIENT_PROTOCOL")
	if strings.HasSuffix(protocol, "SSL") {
		trusted, err := trust.Config(os.Getenv("CLIENT_CA_FILE"), os.Getenv("CLIENT_IDENTITY_FILE"))
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, trusted
	}
	if strings.HasPrefix(protocol, "SASL") {
		login(config, os.Getenv("CLIENT_MECHANISM"))
	}
	return config, config.Validate()
}

func login(config *sarama.Config, mechanism string) {
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
	config.Net.SASL.User = os.Getenv("CLIENT_USERNAME")
	config.Net.SASL.Password = os.Getenv("CLIENT_PASSWORD")
	switch mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &conversation{hash: scram.SHA256}
		}
	case sarama.SASLTypeSCRAMSHA512:
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &conversation{hash: scram.SHA512}
		}
	case sarama.SASLTypeOAuth:
		config.Net.SASL.TokenProvider = token(os.Getenv("CLIENT_PASSWORD"))
	}
}

// conversation is what sarama leaves to its users: the exchange of SCRAM messages.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func brokers() []string {
	return strings.Split(os.Getenv("CLIENT_BOOTSTRAP"), ",")
}
