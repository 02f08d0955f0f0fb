// Command kafkago runs the steady mode, which programs.ts describes, with segmentio/kafka-go over plaintext. Its producer
// is not idempotent.
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/e2e-clients/steady"
	"github.com/segmentio/kafka-go"
)

func main() {
	plan, err := steady.ReadPlan()
	if err != nil {
		log.Fatal(err)
	}
	addresses := strings.Split(os.Getenv("CLIENT_BOOTSTRAP"), ",")
	go read(kafka.ReaderConfig{
		Brokers: addresses, GroupID: plan.Group, Topic: plan.Topic, StartOffset: kafka.FirstOffset,
	})
	writer := producer(addresses, plan)
	plan.Run(func(partition, sequence int) {
		key := []byte(strconv.Itoa(partition))
		message := kafka.Message{Key: key, Value: steady.Value(sequence)}
		if err := writer.WriteMessages(context.Background(), message); err != nil {
			steady.Delivered(partition, sequence, err)
		}
	})
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
	steady.Flushed()
	select {}
}

func producer(addresses []string, plan steady.Plan) *kafka.Writer {
	writer := &kafka.Writer{
		Addr:         kafka.TCP(addresses...),
		Topic:        plan.Topic,
		RequiredAcks: kafka.RequireAll,
		Async:        true,
		// Its default is a second, which each record would wait.
		BatchTimeout: 10 * time.Millisecond,
		Balancer: kafka.BalancerFunc(func(message kafka.Message, _ ...int) int {
			return number(message.Key)
		}),
		Completion: func(messages []kafka.Message, err error) {
			for _, message := range messages {
				steady.Delivered(number(message.Key), number(message.Value), err)
			}
		},
	}
	if plan.IsTuned {
		writer.MaxAttempts = 100
		writer.WriteBackoffMin = 20 * time.Millisecond
		writer.WriteBackoffMax = 100 * time.Millisecond
		writer.Transport = &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
	}
	return writer
}

func read(config kafka.ReaderConfig) {
	reader := kafka.NewReader(config)
	for {
		message, err := reader.ReadMessage(context.Background())
		if err != nil {
			steady.Complain(err)
			time.Sleep(time.Second)
			continue
		}
		steady.Read(message.Partition, message.Value)
	}
}

func number(text []byte) int {
	value, err := strconv.Atoi(string(text))
	if err != nil {
		log.Fatal(err)
	}
	return value
}
