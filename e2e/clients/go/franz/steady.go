package main

import (
	"context"
	"time"

	"github.com/millrace/e2e-clients/steady"
	"github.com/twmb/franz-go/pkg/kgo"
)

func runSteady() error {
	plan, err := steady.ReadPlan()
	if err != nil {
		return err
	}
	options, err := settings()
	if err != nil {
		return err
	}
	if plan.IsTuned {
		backoff := func(int) time.Duration { return 50 * time.Millisecond }
		options = append(options, kgo.MetadataMinAge(50*time.Millisecond), kgo.RetryBackoffFn(backoff))
	}
	ctx := context.Background()
	consumer, err := kgo.NewClient(append(options,
		kgo.ConsumeTopics(plan.Topic),
		kgo.ConsumerGroup(plan.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return err
	}
	go read(ctx, consumer)
	producer, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	plan.Run(func(partition, sequence int) {
		record := &kgo.Record{Topic: plan.Topic, Partition: int32(partition), Value: steady.Value(sequence)}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { steady.Delivered(partition, sequence, err) })
	})
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	steady.Flushed()
	select {}
}

func read(ctx context.Context, consumer *kgo.Client) {
	for {
		fetches := consumer.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			steady.Complain(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { steady.Read(int(record.Partition), record.Value) })
	}
}
