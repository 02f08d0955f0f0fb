package main

import (
	"context"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// shopify is sarama.
type shopify struct{}

func (shopify) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func (s shopify) exchange(ctx context.Context, codec string, idempotent bool) error {
	config := s.config()
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	if idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.SendMessages(s.messages("v")); err != nil {
		return err
	}
	read, err := s.read(records)
	if err != nil {
		return err
	}
	return expect(records, len(read), "records read")
}

func (shopify) messages(prefix string) []*sarama.ProducerMessage {
	var all []*sarama.ProducerMessage
	for at, value := range values(prefix) {
		message := &sarama.ProducerMessage{Topic: topic, Partition: int32(at % partitions), Value: sarama.StringEncoder(value)}
		all = append(all, message)
	}
	return all
}

func (s shopify) read(count int) ([]string, error) {
	consumer, err := sarama.NewConsumer([]string{bootstrap}, s.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	deadline := time.After(waitMax)
	var read []string
	for partition := range int32(partitions) {
		of, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		for got := 0; got < count/partitions; got++ {
			select {
			case message := <-of.Messages():
				read = append(read, string(message.Value))
			case <-deadline:
				return read, nil
			}
		}
		if err := of.Close(); err != nil {
			return nil, err
		}
	}
	return read, nil
}

func (s shopify) transactions(ctx context.Context) error {
	config := s.config()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Transaction.ID = group
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, end := range []struct {
		prefix string
		run    func() error
	}{{"aborted", producer.AbortTxn}, {"committed", producer.CommitTxn}} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := producer.SendMessages(s.messages(end.prefix)); err != nil {
			return err
		}
		if err := end.run(); err != nil {
			return err
		}
	}
	read, err := s.read(records)
	if err != nil {
		return err
	}
	aborted := 0
	for _, value := range read {
		if strings.HasPrefix(value, "aborted") {
			aborted++
		}
	}
	if err := expect(0, aborted, "aborted records"); err != nil {
		return err
	}
	return expect(records, len(read), "committed records")
}

func (s shopify) classicGroup(ctx context.Context) error {
	if err := s.exchange(ctx, "none", false); err != nil {
		return err
	}
	var shared sharing
	members := [2]sarama.ConsumerGroup{}
	for at := range members {
		member, err := sarama.NewConsumerGroup([]string{bootstrap}, group, s.config())
		if err != nil {
			return err
		}
		members[at] = member
		go func() {
			for ctx.Err() == nil && member.Consume(ctx, []string{topic}, &saramaMember{&shared, at}) == nil {
			}
		}()
	}
	if err := shared.until(ctx, 1, 1, 0); err != nil {
		return err
	}
	if err := members[1].Close(); err != nil {
		return err
	}
	if err := shared.until(ctx, partitions, 0, records); err != nil {
		return err
	}
	return members[0].Close()
}

type saramaMember struct {
	shared *sharing
	at     int
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.shared.own(m.at, len(session.Claims()[topic]))
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.shared.own(m.at, 0)
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.shared.see(string(message.Value))
		session.MarkMessage(message, "")
	}
	return nil
}

func (shopify) consumerGroup(context.Context) error { return absence("not supported by the client") }

func (shopify) shareGroup(context.Context) error { return absence("not supported by the client") }

func (s shopify) admin(context.Context) error {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, s.config())
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.CreateTopic(made, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	retention := "5000"
	changes := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention},
	}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, made, changes, false); err != nil {
		return err
	}
	if _, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: made}); err != nil {
		return err
	}
	if err := admin.CreatePartitions(made, 3, nil, false); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	described, err := admin.DescribeTopics([]string{made})
	if err != nil {
		return err
	}
	if err := expect(3, len(described[0].Partitions), "partitions"); err != nil {
		return err
	}
	if _, err := admin.ListConsumerGroups(); err != nil {
		return err
	}
	return admin.DeleteTopic(made)
}
