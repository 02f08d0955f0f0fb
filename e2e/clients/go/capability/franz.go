package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// optInKey is the context key by which franz-go uses the consumer protocol (KIP-848).
const optInKey = "opt_in_kafka_next_gen_balancer_beta"

type franz struct{}

func (franz) options(further ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}, further...)
}

func (f franz) exchange(ctx context.Context, codec string, idempotent bool) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := f.options(kgo.ProducerBatchCompression(codecs[codec]))
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, f.records("v")...).FirstErr(); err != nil {
		return err
	}
	read, err := f.read(ctx, records)
	if err != nil {
		return err
	}
	return expect(records, len(read), "records read")
}

func (franz) records(prefix string) []*kgo.Record {
	var all []*kgo.Record
	for at, value := range values(prefix) {
		all = append(all, &kgo.Record{Topic: topic, Partition: int32(at % partitions), Value: []byte(value)})
	}
	return all
}

func (f franz) read(ctx context.Context, count int) ([]string, error) {
	consumer, err := kgo.NewClient(f.options(
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	var read []string
	for len(read) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return read, err
		}
		fetches.EachRecord(func(record *kgo.Record) { read = append(read, string(record.Value)) })
	}
	return read, nil
}

func (f franz) transactions(ctx context.Context) error {
	producer, err := kgo.NewClient(f.options(kgo.TransactionalID(group))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, end := range []struct {
		prefix string
		commit kgo.TransactionEndTry
	}{{"aborted", kgo.TryAbort}, {"committed", kgo.TryCommit}} {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		if err := producer.ProduceSync(ctx, f.records(end.prefix)...).FirstErr(); err != nil {
			return err
		}
		if err := producer.EndTransaction(ctx, end.commit); err != nil {
			return err
		}
	}
	read, err := f.read(ctx, records)
	if err != nil {
		return err
	}
	aborted := 0
	for _, value := range read {
		if strings.HasPrefix(value, "aborted") {
			aborted++
		}
	}
	return expect(0, aborted, "aborted records")
}

func (f franz) classicGroup(ctx context.Context) error { return f.share(ctx) }

func (f franz) consumerGroup(ctx context.Context) error {
	connection, err := kgo.NewClient(f.options()...)
	if err != nil {
		return err
	}
	defer connection.Close()
	// Where the broker has no such groups, the client would fall back to a classic one.
	request := kmsg.NewPtrConsumerGroupDescribeRequest()
	request.Groups = []string{group}
	if _, err := connection.Request(ctx, request); err != nil {
		return err
	}
	return f.share(ctx, kgo.WithContext(context.WithValue(ctx, optInKey, true)))
}

func (f franz) shareGroup(ctx context.Context) error {
	producer, err := kgo.NewClient(f.options()...)
	if err != nil {
		return err
	}
	defer producer.Close()
	released, accepted, err := f.acknowledge(ctx, producer, "first", kgo.AckRelease)
	if err != nil {
		return err
	}
	if err := expect(2*records, len(released)+len(accepted), "records released and accepted"); err != nil {
		return err
	}
	released, accepted, err = f.acknowledge(ctx, producer, "later", kgo.AckAccept)
	if err != nil {
		return err
	}
	for _, value := range accepted {
		if !strings.HasPrefix(value, "later") {
			return fmt.Errorf("%s was delivered after it was accepted", value)
		}
	}
	return expect(0, len(released), "records released")
}

// acknowledge writes records and is a member of the share group until it has accepted as many: first is what it does with
// records at their first delivery.
func (f franz) acknowledge(
	ctx context.Context, producer *kgo.Client, prefix string, first kgo.AckStatus,
) (released, accepted []string, err error) {
	if err := producer.ProduceSync(ctx, f.records(prefix)...).FirstErr(); err != nil {
		return nil, nil, err
	}
	var failure atomic.Value
	member, err := kgo.NewClient(f.options(kgo.ShareGroup(group), kgo.ConsumeTopics(topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				failure.Store(err.Error())
			}
		}))...)
	if err != nil {
		return nil, nil, err
	}
	defer member.Close()
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	for len(accepted) < records {
		fetches := member.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return released, accepted, fmt.Errorf("%w; %d released, %d accepted", err, len(released), len(accepted))
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.DeliveryCount() == 1 && first == kgo.AckRelease {
				record.Ack(kgo.AckRelease)
				released = append(released, string(record.Value))
			} else {
				record.Ack(kgo.AckAccept)
				accepted = append(accepted, string(record.Value))
			}
		})
	}
	if err := member.FlushAcks(ctx); err != nil {
		return released, accepted, err
	}
	if message := failure.Load(); message != nil {
		return released, accepted, fmt.Errorf("acknowledgement: %v", message)
	}
	return released, accepted, nil
}

func (f franz) share(ctx context.Context, further ...kgo.Opt) error {
	producer, err := kgo.NewClient(f.options()...)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, f.records("v")...).FirstErr(); err != nil {
		return err
	}
	var shared sharing
	members := [2]*kgo.Client{}
	for at := range members {
		owned := 0
		count := func(change int) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
				owned += change * len(changed[topic])
				shared.own(at, owned)
			}
		}
		members[at], err = kgo.NewClient(f.options(append(further, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(count(1)),
			kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)))...)...)
		if err != nil {
			return err
		}
		go func() {
			for ctx.Err() == nil && !members[at].PollFetches(ctx).IsClientClosed() {
			}
		}()
	}
	if err := shared.until(ctx, 1, 1, 0); err != nil {
		return err
	}
	members[1].Close()
	if err := shared.until(ctx, partitions, 0, 0); err != nil {
		return err
	}
	defer members[0].Close()
	return members[0].CommitUncommittedOffsets(ctx)
}

func (f franz) admin(ctx context.Context) error {
	connection, err := kgo.NewClient(f.options()...)
	if err != nil {
		return err
	}
	admin := kadm.NewClient(connection)
	defer admin.Close()
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, made); err != nil {
		return err
	}
	retention := "5000"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
	altered, err := admin.AlterTopicConfigs(ctx, changes, made)
	if err != nil {
		return err
	}
	if altered[0].Err != nil {
		return altered[0].Err
	}
	if _, err := admin.UpdatePartitions(ctx, 3, made); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	topics, err := admin.ListTopics(ctx, made)
	if err != nil {
		return err
	}
	if err := expect(3, len(topics[made].Partitions), "partitions"); err != nil {
		return err
	}
	if _, err := admin.ListGroups(ctx); err != nil {
		return err
	}
	if _, err := admin.DescribeAllLogDirs(ctx, nil); err != nil {
		return err
	}
	_, err = admin.DeleteTopic(ctx, made)
	return err
}
