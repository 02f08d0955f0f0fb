package main

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/millrace/e2e-clients/steady"
)

func runSteady() error {
	plan, err := steady.ReadPlan()
	if err != nil {
		return err
	}
	config, err := settings()
	if err != nil {
		return err
	}
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Return.Errors = true
	if plan.IsTuned {
		config.Producer.Retry.Max = 100
		config.Producer.Retry.Backoff = 20 * time.Millisecond
	}
	group, err := sarama.NewConsumerGroup(brokers(), plan.Group, config)
	if err != nil {
		return err
	}
	go follow(group, plan.Topic)
	producer, err := sarama.NewAsyncProducer(brokers(), config)
	if err != nil {
		return err
	}
	var reports sync.WaitGroup
	reports.Go(func() {
		for message := range producer.Successes() {
			steady.Delivered(int(message.Partition), message.Metadata.(int), nil)
		}
	})
	reports.Go(func() {
		for failed := range producer.Errors() {
			steady.Delivered(int(failed.Msg.Partition), failed.Msg.Metadata.(int), failed.Err)
		}
	})
	plan.Run(func(partition, sequence int) {
		value := sarama.ByteEncoder(steady.Value(sequence))
		producer.Input() <- &sarama.ProducerMessage{
			Topic: plan.Topic, Partition: int32(partition), Value: value, Metadata: sequence,
		}
	})
	producer.AsyncClose()
	reports.Wait()
	steady.Flushed()
	select {}
}

func follow(group sarama.ConsumerGroup, topic string) {
	go func() {
		for err := range group.Errors() {
			steady.Complain(err)
		}
	}()
	for {
		if err := group.Consume(context.Background(), []string{topic}, follower{}); err != nil {
			steady.Complain(err)
		}
	}
}

// follower prints whatever it is given.
type follower struct{}

func (follower) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (follower) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (follower) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		steady.Read(int(message.Partition), message.Value)
		session.MarkMessage(message, "")
	}
	return nil
}
