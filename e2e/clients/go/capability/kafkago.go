package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
)

// segment is segmentio/kafka-go.
type segment struct{}

func (s segment) exchange(ctx context.Context, codec string, idempotent bool) error {
	if idempotent {
		return absence("not supported by the client")
	}
	if err := s.write(ctx, codec); err != nil {
		return err
	}
	count := 0
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	for partition := range partitions {
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: partition})
		for range records / partitions {
			if _, err := reader.ReadMessage(ctx); err != nil {
				return err
			}
			count++
		}
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return expect(records, count, "records read")
}

func (segment) write(ctx context.Context, codec string) error {
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	next := 0
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codecs[codec],
		BatchTimeout: 10 * time.Millisecond,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int {
			next++
			return next % partitions
		}),
	}
	var messages []kafka.Message
	for _, value := range values("v") {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return err
	}
	return writer.Close()
}

func (segment) transactions(context.Context) error { return absence("not supported by the client") }

func (s segment) classicGroup(ctx context.Context) error {
	if err := s.write(ctx, "none"); err != nil {
		return err
	}
	var shared sharing
	ends := [2]context.CancelFunc{}
	for at := range ends {
		member, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
			ID: group, Brokers: []string{bootstrap}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		})
		if err != nil {
			return err
		}
		memberContext, end := context.WithCancel(ctx)
		ends[at] = end
		go s.takePart(memberContext, member, &shared, at)
	}
	defer ends[0]()
	if err := shared.until(ctx, 1, 1, 0); err != nil {
		return err
	}
	ends[1]()
	return shared.until(ctx, partitions, 0, records)
}

func (segment) takePart(ctx context.Context, member *kafka.ConsumerGroup, shared *sharing, at int) {
	defer shared.own(at, 0)
	defer member.Close()
	for ctx.Err() == nil {
		generation, err := member.Next(ctx)
		if err != nil {
			continue
		}
		assigned := generation.Assignments[topic]
		shared.own(at, len(assigned))
		for _, one := range assigned {
			generation.Start(func(ctx context.Context) {
				reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: one.ID})
				defer reader.Close()
				if err := reader.SetOffset(max(one.Offset, 0)); err != nil {
					return
				}
				for {
					message, err := reader.ReadMessage(ctx)
					if err != nil {
						return
					}
					shared.see(string(message.Value))
				}
			})
		}
	}
}

func (segment) consumerGroup(context.Context) error { return absence("not supported by the client") }

func (segment) shareGroup(context.Context) error { return absence("not supported by the client") }

func (segment) admin(ctx context.Context) error {
	// It answers requests for metadata from what it knows.
	transport := &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
	admin := &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: waitMax, Transport: transport}
	created, err := admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: made, NumPartitions: 1, ReplicationFactor: 1}},
	})
	if err != nil {
		return err
	}
	if err := created.Errors[made]; err != nil {
		return err
	}
	grown, err := admin.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: made, Count: 3}},
	})
	if err != nil {
		return err
	}
	if err := grown.Errors[made]; err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	metadata, err := admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{made}})
	if err != nil {
		return err
	}
	if err := expect(3, len(metadata.Topics[0].Partitions), "partitions"); err != nil {
		return err
	}
	if _, err := admin.ListGroups(ctx, &kafka.ListGroupsRequest{}); err != nil {
		return err
	}
	deleted, err := admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{made}})
	if err != nil {
		return err
	}
	return deleted.Errors[made]
}
